# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2207
# bash completion for thinswap(1)
#
# tests/cli/test_completion.py compares it with the program's --help.

_thinswap() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local commands='attach check detach estimate fsck metrics stats status
		top tune upgrade version'
	local command='' word options i

	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		--runtime-dir) ((i++)) ;;
		-*) ;;
		*) command=$word && break ;;
		esac
	done
	case $prev in
	--runtime-dir)
		COMPREPLY=($(compgen -d -- "$cur"))
		return ;;
	--file | --keep | --spill)
		COMPREPLY=($(compgen -f -- "$cur"))
		return ;;
	--format)
		COMPREPLY=($(compgen -W 'text json prometheus openmetrics' \
			-- "$cur"))
		return ;;
	--levels)
		COMPREPLY=($(compgen -W '-1,1,3' -- "$cur"))
		return ;;
	--memory | --cpus | --segment | --listen | --seconds | --count | --sample | \
		--rate | --budget)
		return ;;
	esac
	case $command in
	'') options="--runtime-dir --json --help --version $commands" ;;
	attach) options='--no-swapon --json --help' ;;
	check) options='--memory --cpus --json --help' ;;
	detach) options='--force --json --help' ;;
	estimate) options='--sample --rate --levels --budget --json --help' ;;
	fsck) options='--file --keep --segment --spill --json --help' ;;
	metrics) options='--listen --file --help' ;;
	stats) options='--file --json --format --watch --count --help' ;;
	status | upgrade | version) options='--json --help' ;;
	top) options='--file --seconds --help' ;;
	tune)
		options='--file --json --help ram= level= high-water= low-water=
			ram-admission= write-budget=' ;;
	*) return ;;
	esac
	COMPREPLY=($(compgen -W "$options" -- "$cur"))
	if [[ $command == check && $cur != -* ]]; then
		COMPREPLY+=($(compgen -f -- "$cur"))
	elif [[ $command == estimate && $cur != -* ]]; then
		COMPREPLY+=($(compgen -W "$(cd /proc && echo [0-9]*)" \
			-- "$cur"))
	fi
	# A value follows the equals sign at once.
	if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then
		compopt -o nospace
	fi
}

complete -F _thinswap thinswap
