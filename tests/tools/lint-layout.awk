# SPDX-License-Identifier: Apache-2.0
#
# lint-layout.awk - C source as one line per statement, for comparing layouts
#
# Prints "LINE<tab>TEXT" for each statement, declaration or block opening: its
# continuation lines are joined, and blanks within it squeezed. What remains is
# what clang-format 14 and the kernel's style agree about: how far a statement
# is indented, where braces go, the space around tokens. Where a long statement
# or initializer is broken, and columns of trailing comments and of #define
# values, are left to the author.

function flush_line()
{
	# clang-format 14 takes a macro's argument before a sign for a cast
	if (preprocessor) {
		gsub(/\) - /, ")-", text)
		gsub(/\) & /, ")\\&", text)
		gsub(/\) \* /, ")*", text)
	}
	if (text != "")
		print first "\t" text
	text = ""
	depth = preprocessor = data = 0
}

# The parentheses that @s opens more than it closes, literals left out; of an
# initializer and an enum the braces, too.
function opened(s,    n)
{
	gsub(/\\./, "", s)
	gsub(/"[^"]*"/, "", s)
	gsub(/'[^']*'/, "", s)
	gsub(/\/\*.*\*\//, "", s)
	gsub(/\/\/.*/, "", s)
	n = gsub(/\(/, "", s) - gsub(/\)/, "", s)
	if (data)
		n += gsub(/\{/, "", s) - gsub(/\}/, "", s)
	return n
}

# No blank where @a and @b are joined: brackets, members, a pointer's name.
function glued(a, b)
{
	return a ~ /([([]|->|\.)$/ || b ~ /^([)]|->)/ ||
	       a ~ /^[a-z][A-Za-z0-9_ ]* \*$/
}

function ends_open(s)
{
	gsub(/[ \t]*\/\*[^*]*\*\/[ \t]*$/, "", s)
	return s ~ /[^;{}:)]$/ || s ~ /[?] .* :$/ && s !~ /^[\t]*case / ||
	       s ~ /^__attribute__\(\(.*\)\)$/
}

{
	line = $0
	# comments of several lines are left as they are
	if (text == "" && (in_comment || line ~ /^[ \t]*\/\*/)) {
		in_comment = line !~ /\*\/[ \t]*$/
		print NR "\t" line
		next
	}
	if (line ~ /^[ \t]*$/) {
		flush_line()
		print NR "\t"
		next
	}
	match(line, /^[ \t]*/)
	indent = substr(line, 1, RLENGTH)
	line = substr(line, RLENGTH + 1)
	gsub(/[ \t]+/, " ", line)
	sub(/ $/, "", line)
	if (text == "") {
		first = NR
		text = indent line
		preprocessor = line ~ /^#/
	} else {
		sub(/ ?\\$/, "", text)
		text = text (glued(text, line) ? "" : " ") line
	}
	if (!data && text !~ /^\t*(for|if|while|switch) \(/ &&
	    (text ~ /(=|=.*\)) ?\{/ || text ~ /^enum [^()]*\{/)) {
		data = 1
		depth = opened(text)
	} else {
		depth += opened(line)
	}
	if (line ~ /\\$/)
		next
	if (preprocessor || depth <= 0 && !ends_open(text))
		flush_line()
}

END {
	flush_line()
}
