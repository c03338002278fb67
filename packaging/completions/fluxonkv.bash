# SPDX-License-Identifier: Apache-2.0
# bash completion for fluxonkvctl(8), fluxonkvd(8) and fluxonkv-bench(1). The
# words come from the programs' own --help, so they cannot be out of date.

# _fluxonkv_help WORD...: without its examples
_fluxonkv_help()
{
	"$@" --help 2>/dev/null | sed '/^E[Xx][Aa]/,$d'
}

# Options of a help text, and its commands: "  NAME  what it is".
_fluxonkv_options()
{
	grep -oE -- '(^ +|[[ |,])--?[a-z][a-z-]*' <<<"$1" |
		grep -oE -- '-.*' | sort -u
}

_fluxonkv_commands()
{
	sed -nE 's/^  ([a-z]+)  *[^ ].*/\1/p' <<<"$1"
}

# What OPTION of HELP takes: "--opt ARG".
_fluxonkv_argument()
{
	sed -nE "s/^ .*[ ,[]$2(, --[a-z-]+)? ([^] ]+).*/\2/p" <<<"$1" | head -n 1
}

# ARGUMENT CURRENT: files, folders, one of several words, or anything
_fluxonkv_values()
{
	case $1 in
	DIR*)
		compopt -o filenames -o nospace 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
	PATH|FILE)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
	*[a-z]'|'[a-z]*)
		mapfile -t COMPREPLY < <(compgen -W "${1//|/ }" -- "$2") ;;
	esac
}

_fluxonkvd()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	local help argument

	COMPREPLY=()
	help=$(_fluxonkv_help "$1")
	case $prev in
	--io-engine)
		argument='auto|uring|uring_iovec|threads' ;;
	--log-level)
		argument='error|warning|info|debug' ;;
	--metrics)
		argument='none|127.0.0.1:31997' ;;
	-*)
		argument=$(_fluxonkv_argument "$help" "$prev") ;;
	esac
	if [[ $argument == [A-Z]* || $argument == *'|'* ]]; then
		_fluxonkv_values "$argument" "$cur"
	else
		mapfile -t COMPREPLY < <(compgen -W \
			"$(_fluxonkv_options "$help")" -- "$cur")
	fi
}

# Programs of the form: PROGRAM [OPTION]... COMMAND [OPTION]... [ARGUMENT]...
_fluxonkv_command()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	local help argument='' command='' words i

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--address|--timeout)
			((i++)) ;;
		-*)
			;;
		*)
			command=${COMP_WORDS[i]}
			break ;;
		esac
	done
	help=$(_fluxonkv_help "$1" ${command:+"$command"})
	[[ $prev != -* ]] || argument=$(_fluxonkv_argument "$help" "$prev")
	case $argument,$cur in
	[A-Z]*|[a-z]*'|'*)
		_fluxonkv_values "${argument%,*}" "$cur"
		return ;;
	,-*)
		words="$(_fluxonkv_options "$help")" ;;
	*)
		words=$(_fluxonkv_words "$1" "$command" "$help") ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	if [[ $command == put ]] && ((COMP_CWORD > i + 1)); then
		_fluxonkv_values FILE "$cur"
	fi
}

# PROGRAM COMMAND HELP: the commands, or the words that COMMAND takes
_fluxonkv_words()
{
	if [[ -z $2 ]]; then
		_fluxonkv_commands "$3"
	elif [[ $1 == *ctl ]]; then
		sed -nE "1s/.* $2 ([a-z|]+)$/\1/p" <<<"$3" | tr '|' '\n'
	else
		_fluxonkv_options "$3"
	fi
}

complete -F _fluxonkvd fluxonkvd
complete -F _fluxonkv_command fluxonkvctl fluxonkv-bench
