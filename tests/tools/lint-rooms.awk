# SPDX-License-Identifier: Apache-2.0
#
# lint-rooms.awk - which room may include what (Documentation/architecture.md)
#
# Prints "FILE LINE what is wrong". Headers of this tree are named from the
# roots daemon/, include/, include/uapi/, tools/ and tools/lib/, or lie beside
# the file. A header of the system or of a library is free unless the room
# below has a list, or the library belongs to other rooms.

function room_of(file,    n, part)
{
	n = split(file, part, "/")
	if (part[1] == "include")
		return part[2] == "uapi" ? "uapi" : file
	if (part[1] == "kmod" || part[1] == "bpf" || n < 3)
		return part[1]
	return part[1] "/" part[2]
}

BEGIN {
	standard = "^(assert|endian|errno|inttypes|limits|stdarg|stdbool|" \
		   "stddef|stdint|stdio|stdlib|string)\\.h$"
	pure = "^(assert|endian|errno|inttypes|stdbool|stddef|stdint|stdio|" \
	       "string|sys/queue)\\.h$"

	# of this tree, beside the room's own headers
	ours["uapi"] = "^$"
	ours["include/fluxonkv.h"] = "^$"
	ours["include/fluxonkv-shm.h"] = "^$"
	ours["daemon/base"] = "^base/"
	ours["daemon/wire"] = "^(base|wire)/|^linux/fluxonkv\\.h$"
	ours["daemon/core"] = "^(base|wire|core)/|^linux/fluxonkv\\.h$"
	ours["daemon/io"] = "^(base|wire|core|io)/|^linux/fluxonkv\\.h$" \
			    "|^fluxonkv-shm\\.h$"
	ours["daemon/svc"] = "^(base|wire|core|io|svc)/|^linux/fluxonkv\\.h$"
	ours["tools/lib"] = "^(linux/)?fluxonkv\\.h$|^fluxonkv-shm\\.h$"
	ours["tools/ctl"] = "^ctl/|^(linux/)?fluxonkv\\.h$"
	ours["tools/bench"] = "^bench/|^(linux/)?fluxonkv\\.h$"
	ours["tools/trace"] = "^linux/fluxonkv\\.h$"
	ours["bpf"] = "^linux/fluxonkv\\.h$"
	ours["kmod"] = "^linux/fluxonkv\\.h$"
	ours["tests/sim"] = "^(base|wire|core)/|^linux/fluxonkv\\.h$"
	ours["tests/e2e"] = "^(linux/)?fluxonkv\\.h$"

	# never, though the above would allow it: clocks and logs
	never["daemon/wire"] = never["daemon/core"] = "^base/(clock|log)\\.h$"

	# of the system, where not all are free
	system_of["uapi"] = "^linux/(types|ioctl)\\.h$"
	system_of["include/fluxonkv.h"] = standard
	system_of["include/fluxonkv-shm.h"] = standard
	system_of["daemon/base"] = standard "|^(time|unistd|xxhash|bsd/sys/tree)\\.h$"
	system_of["daemon/wire"] = pure "|^(sodium|protobuf-c/protobuf-c)\\.h$"
	system_of["daemon/core"] = pure

	# libraries, and the rooms that may use them
	library["^liburing\\.h$"] = "^daemon/io$"
	library["^infiniband/|^rdma/"] = "^daemon/io$"
	library["^uv\\.h$"] = "^daemon/(io|svc)$"
	library["^(yaml|microhttpd)\\.h$|^systemd/"] = "^daemon/svc$"
	library["^json-c/"] = "^(daemon/svc|tools/(ctl|bench|trace))$"
	library["^sodium\\.h$"] = "^(daemon/(wire|io|svc)|tools/bench)$"
	library["^protobuf-c/"] = "^daemon/wire$"
	library["^xxhash\\.h$"] = "^(daemon/base|tools/lib)$"
	library["^bsd/"] = "^(daemon/base|tools/lib)$"
	library["^pthread\\.h$"] = "^(daemon/(io|svc)|tools/(lib|bench))$"
	library["^bpf/"] = "^(bpf|tools/trace)$"
}

FNR == 1 {
	room = room_of(FILENAME)
	beside = FILENAME
	sub(/[^\/]*$/, "", beside)
}

function wrong(text)
{
	print FILENAME, FNR, room " must not include " text
}

function exists(file,    line, ret)
{
	if (!(file in seen)) {
		ret = (getline line < file)
		close(file)
		seen[file] = ret >= 0
	}
	return seen[file]
}

function is_ours(name)
{
	return exists("daemon/" name) || exists("include/" name) ||
	       exists("include/uapi/" name) || exists("tools/" name) ||
	       exists("tools/lib/" name) || name ~ /^(base|wire|core|io|svc)\//
}

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
	name = $0
	sub(/^[^"<]*["<]/, "", name)
	sub(/[">].*/, "", name)
	if (name ~ /\.\./)
		wrong(name ": name it from its root")
	else if (/"/ && exists(beside name))
		next
	else if (is_ours(name)) {
		if (room in ours && name !~ ours[room])
			wrong(name)
		else if (room in never && name ~ never[room])
			wrong(name ": no clocks, no logging here")
	} else {
		if (room in system_of && name !~ system_of[room])
			wrong("<" name ">")
		for (l in library)
			if (name ~ l && room !~ library[l] && room !~ /^tests/)
				wrong("<" name ">: a library of other rooms")
	}
}
