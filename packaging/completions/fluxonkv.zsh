#compdef fluxonkvctl fluxonkvd fluxonkv-bench
# SPDX-License-Identifier: Apache-2.0
# zsh completion; the words come from the programs' own --help.

# HELP: its options and what they take, as lines "--opt" or "--opt ARG"
_fluxonkv_options() {
	print -r -- "$1" | sed -nE \
		's/^ +(-[a-z], )?(--[a-z-]+)( [^ ]+)?( .*)?$/\2\3/p'
}

# HELP OPTION: completes what it takes; fails when that is nothing
_fluxonkv_value() {
	local argument=${$(_fluxonkv_options "$1" |
		sed -n "s/^$2 //p")[1]}

	case $2 in
	--io-engine) argument='auto|uring|uring_iovec|threads' ;;
	--log-level) argument='error|warning|info|debug' ;;
	-o) argument=FILE ;;
	esac
	case $argument in
	'') return 1 ;;
	DIR*) _files -/ ;;
	PATH|FILE) _files ;;
	[a-z]*'|'*) compadd -- ${(s:|:)argument} ;;
	*) _message "$argument" ;;
	esac
	return 0
}

# HELP: completes its commands
_fluxonkv_commands() {
	local -a commands

	commands=(${(f)"$(print -r -- "$1" | sed -nE \
		's/^  ([a-z]+)  *([^ ].*)/\1:\2/p')"})
	_describe command commands
}

_fluxonkv() {
	local program=$words[1] help i
	local -a options command

	if [[ $service != fluxonkvd ]]; then
		for ((i = 2; i < CURRENT; i++)); do
			case $words[i] in
			--address|--timeout) ((i++)) ;;
			-*) ;;
			*) command=($words[i]); break ;;
			esac
		done
	fi
	help=$($program $command --help 2>/dev/null | sed '/^E[Xx][Aa]/,$d')
	if [[ $words[CURRENT-1] == -* ]]; then
		_fluxonkv_value "$help" $words[CURRENT-1] && return
	fi
	options=(--help ${(f)"$(_fluxonkv_options "$help" | sed 's/ .*//')"})
	if [[ $PREFIX == -* || $service == fluxonkvd ]]; then
		compadd -- $options
	elif (( ! $#command )); then
		_fluxonkv_commands "$help"
	elif [[ $command[1] == put ]]; then
		_files
	elif [[ $service == fluxonkv-bench ]]; then
		compadd -- $options
	else
		options=(${(s:|:)"$(print -r -- "$help" |
			sed -nE "1s/.* $command[1] ([a-z|]+)$/\1/p")"})
		compadd -- $options
	fi
}

_fluxonkv "$@"
