# bash completion for atoll. Commands and settings come from `atoll help`, the words of a command from its
# `--help`.
# shellcheck shell=bash

_atoll_commands() { "$1" help 2>/dev/null | sed -n '/^Settings/q; s/^  \([a-z-]\{1,\}\).*/\1/p'; }
_atoll_settings() { "$1" help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\) .*/\1/p'; }
_atoll_values() { "$1" help 2>/dev/null | sed -n "s/^  $2 \([^ ]*\).*/\1/p"; }
_atoll_words() {
    "$1" "$2" --help 2>/dev/null | sed '/^$/q' | grep -oE "(atoll $2|\|) \[?[a-z][a-z-]*" | sed 's/.*[[ ]//'
}
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
        tool) words=$(_atoll_tools "$program") ;;
        *) words=$(_atoll_words "$program" "${COMP_WORDS[1]}") ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _atoll atoll
