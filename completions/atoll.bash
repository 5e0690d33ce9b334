# bash completion for atoll. The program itself knows the candidates: `atoll complete -- WORDS...`.
# shellcheck shell=bash

_atoll() {
    local program=$1 word=$2 line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :file)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
            ;;
        :dir)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$word")
            ;;
        *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("$program" complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$word" 2>/dev/null)
    # ID: is followed by a path.
    [[ ${COMPREPLY[*]} != *: ]] || compopt -o nospace 2>/dev/null
}
complete -F _atoll atoll
