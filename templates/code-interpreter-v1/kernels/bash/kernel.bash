# The start of the bash kernel: an interactive bash reads commands from descriptor 3 (its standard
# input by now) and runs each cell at its top level, so that declarations stay and SIGINT leads back to
# the prompt with everything kept. Events go to descriptor 4, where cells cannot write by accident.
# shellcheck shell=bash

PS1='' PS2=''
unset HISTFILE
set +o history
shopt -u huponexit
atoll_id='' atoll_code='' atoll_count=0
declare -A atoll_saved=()

# Decodes the variables of a list and exports them.
atoll_export() {
    local item pair
    [ "$1" = - ] && return
    for item in ${1//,/ }; do
        pair=$(base64 -d <<<"$item" && printf x)
        export "${pair%x}" 2>/dev/null
    done
}

# Keeps what the variables of a list are now: "=value" when exported, "+value" when only set.
atoll_save() {
    local item name
    [ "$1" = - ] && return
    for item in ${1//,/ }; do
        name=$(base64 -d <<<"$item")
        name=${name%%=*}
        if [[ ${name@a} == *x* ]]; then atoll_saved[$name]="=${!name}"
        elif [[ -v $name ]]; then atoll_saved[$name]="+${!name}"
        else atoll_saved[$name]=''; fi
    done
}

atoll_restore() {
    local name
    for name in "${!atoll_saved[@]}"; do
        unset -v "$name"
        case ${atoll_saved[$name]} in
        =*) export "$name=${atoll_saved[$name]#=}" ;;
        +*) printf -v "$name" %s "${atoll_saved[$name]#+}" ;;
        esac
    done
    atoll_saved=()
}

# atoll_load ID CODE ENV LASTING: what comes before a cell.
atoll_load() {
    atoll_id=$1
    atoll_code=$([ "$2" = - ] || base64 -d <<<"$2" && printf x)
    atoll_code=${atoll_code%x}
    atoll_export "$4"
    atoll_save "$3"
    atoll_export "$3"
    printf '{"type":"count","count":%d}\n' $((++atoll_count)) >&4
}

# Before every prompt: the cell is over, whether it ended, failed or was interrupted.
atoll_prompt() {
    local status=$?
    if [ -z "$atoll_id" ]; then
        printf '{"type":"ready"}\n' >&4
        return
    fi
    atoll_restore
    if [ "$status" != 0 ]; then
        printf '{"type":"error","name":"ExitStatus","value":"%d","traceback":""}\n' "$status" >&4
    fi
    printf '{"type":"done","id":%d}\n' "$atoll_id" >&4
    return "$status"
}
PROMPT_COMMAND=atoll_prompt
