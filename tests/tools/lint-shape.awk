# SPDX-License-Identifier: Apache-2.0
#
# lint-shape.awk - the length of each function and its number of parameters
#
# Prints "FILE:LINE NAME LINES PARAMETERS" for each function of C files in
# kernel style: its opening brace and its closing one stand in column one.

function parameters(s,    n, i, c, deep)
{
	sub(/[ \t]*\)[^)]*$/, "", s)
	if (!match(s, /[a-zA-Z_0-9]+\(/))
		return 0
	s = substr(s, RSTART + RLENGTH)
	if (s ~ /^(void)?$/)
		return 0
	n = 1
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		deep += (c == "(") - (c == ")")
		if (c == "," && deep == 0)
			n++
	}
	return n
}

FNR == 1 {
	head = ""
	inside = 0
}

inside {
	if ($0 == "}") {
		print FILENAME ":" at " " name " " FNR - at + 1 " " count
		inside = 0
		head = ""
	}
	next
}

/^\{/ {
	text = head
	gsub(/__attribute__\(\(([^()]|\([^()]*\))*\)\)/, "", text)
	if (match(text, /[a-zA-Z_0-9]+\(/)) {
		name = substr(text, RSTART, RLENGTH - 1)
		count = parameters(text)
		inside = 1
	}
	head = ""
	next
}

/^[a-zA-Z_]/ && !/[;:,=]$/ || /^[a-zA-Z_].*,$/ {
	head = $0
	at = FNR
	next
}

# the parameters go on
head != "" && /^[ \t]/ {
	head = head " " $0
	next
}

{
	head = ""
}
