# SPDX-License-Identifier: Apache-2.0
# bash completion for fluxonkvctl(8)

_fluxonkvctl()
{
	local commands='status put get del exists stat list count holders
		segments routes ssd debug metrics'
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	local command='' words='' i

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
	case $command,$prev in
	,--address|,--timeout|list,--limit)
		return ;;
	get,-o|get,--output)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return ;;
	esac
	case $command in
	'')
		words="$commands --address --json --timeout --version --help" ;;
	put)
		words='--excl --nowait --memory-only --help'
		if ((COMP_CWORD > i + 1)) && [[ $cur != -* ]]; then
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi ;;
	get)
		words='-o --output --help' ;;
	list)
		words='--limit --all --help' ;;
	debug)
		words='refs --help' ;;
	*)
		words='--help' ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _fluxonkvctl fluxonkvctl
