# bash completion for atoll. Commands and settings are those that `atoll help` prints.
# shellcheck shell=bash

_atoll_commands() { "$1" help 2>/dev/null | sed -n '/^Settings/q; s/^  \([a-z]\{1,\}\).*/\1/p'; }
_atoll_settings() { "$1" help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\) .*/\1/p'; }
_atoll_values() { "$1" help 2>/dev/null | sed -n "s/^  $2 \([^ ]*\).*/\1/p"; }
_atoll_tools() { "$1" tool 2>/dev/null | sed -n 's/^ *\([a-z_]\{1,\}\) .*/\1/p'; }

_atoll() {
    local word=$2 before=$3 program=$1 words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$(_atoll_commands "$program")
    elif [[ $before = --* && $before != --help && $before != --follow && $before != --no-cache ]]; then
        case $(_atoll_values "$program" "$before") in
        DIR) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
        FILE) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        'true|false') mapfile -t COMPREPLY < <(compgen -W "true false" -- "$word") ;;
        LEVEL) mapfile -t COMPREPLY < <(compgen -W "debug info warn error" -- "$word") ;;
        esac
        return
    elif [[ $word = -* ]]; then
        words="--help $(_atoll_settings "$program")"
    elif [ "$COMP_CWORD" -eq 2 ]; then
        case ${COMP_WORDS[1]} in
        key) words="create list revoke" ;;
        shell) words="list put rm" ;;
        template) words="list build logs delete prune" ;;
        prepare) words="all" ;;
        tool) words=$(_atoll_tools "$program") ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _atoll atoll
