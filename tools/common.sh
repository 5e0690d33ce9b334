# common.sh - what the scripts of tools/ and tests/ share. Each one sources it after its `set` line.
#
# A script never fails without a sentence: die() says why, and where nobody called die() the exit
# handler names the step, the line and the command that failed. Every script that sources this must
# leave the EXIT and ERR traps alone: a function named in at_exit runs first, for its own cleaning.
# shellcheck shell=bash
set -E # functions and subshells inherit the ERR trap

tool=${0##*/}
[ "${0%/*}" = "$0" ] || case $tool in run | venv | node) tool=$(basename "${0%/*}")/$tool ;; esac
step=         # what is being done now, for the sentence of a failure
at_exit=      # a function of the script, called at its end with the exit status
failure_said= # somebody has told why already
failed_line=0
failed_command=

# git refuses a tree that belongs to another user. Whoever runs these scripts trusts this one already.
GIT_CONFIG_VALUE_0=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0

say() { printf '%s\n' "$*" >&2; }

# die SENTENCE: ends the script. DIE_CODE is its exit status.
die() {
    say "$tool: $*"
    failure_said=yes
    exit "${DIE_CODE:-1}"
}

failure_note() {
    failed_line=$1
    failed_command=$2
}

# A subshell that fails makes its parent fail, which then says it.
end_of_script() {
    local code=$1

    set +e
    trap - ERR
    if [ "$code" -ne 0 ] && [ -z "$failure_said" ] && [ "$code" -lt 128 ]; then
        say "$tool: failed${step:+ at this step: $step} (line $failed_line, exit status $code: ${failed_command%%$'\n'*})"
    fi
    [ -z "$at_exit" ] || "$at_exit" "$code"
    exit "$code"
}

trap 'failure_note "$LINENO" "$BASH_COMMAND"' ERR
trap 'end_of_script $?' EXIT

# awk for the lines of a running program: mawk, Debian's own, waits for a full buffer unless it is told.
awk_live() {
    case $(awk -W version 2>&1 </dev/null) in
    mawk*) awk -W interactive "$@" ;;
    *) awk "$@" ;;
    esac
}

# Says that this is a system the tree was never tried on, before anything is installed or changed.
# ATOLL_ANY_SYSTEM=yes goes on all the same.
release_check() {
    local file=${ATOLL_OS_RELEASE:-/etc/os-release} name

    [ "${ATOLL_ANY_SYSTEM:-}" != yes ] || return 0
    [ -r "$file" ] || die "$file cannot be read, so this system is unknown. atoll is built on Debian 12 and 13. \
Nothing was installed. ATOLL_ANY_SYSTEM=yes goes on all the same."
    # shellcheck source=/dev/null
    name=$(. "$file" && echo "${ID:-unknown} ${VERSION_ID:-} ${PRETTY_NAME:-an unnamed system}") ||
        die "$file is not a list of shell assignments, so this system is unknown"
    case $name in
    "debian 12 "* | "debian 13 "*) ;;
    *) die "atoll is built on Debian 12 and 13, and this is ${name#* * }. Nothing was installed. \
A program that was built on Debian 12 also ran on Ubuntu 24.04: build it there with \`make install DESTDIR=DIR\`, \
copy DIR here, and ask \`atoll doctor\`. ATOLL_ANY_SYSTEM=yes goes on all the same." ;;
    esac
}

# version_before: the version that is upgraded from: the newest tag before HEAD. A clone without tags takes the
# commit that tools/release would have tagged, which every full clone has.
version_before() {
    local tree=$GIT_CONFIG_VALUE_0

    git -C "$tree" describe --abbrev=0 --tags HEAD^ 2>/dev/null ||
        git -C "$tree" log -1 --format=%H -E --grep='^release: [0-9]+\.[0-9]+\.[0-9]+$' HEAD^ 2>/dev/null | grep . ||
        die "this clone has no earlier release: a shallow clone lacks it (git fetch --unshallow --tags)"
}
