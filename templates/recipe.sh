# recipe.sh - what the recipes of the built-in templates share. Each one sources it, says what it is,
# defines make(), and ends with `recipe_main "$@"`. A recipe is called as
#
#   recipe name         prints <template>-<12 hex digits>: changes when the content would
#   recipe build CACHE  makes CACHE/templates/<name>.tar.zst, unless it is there already
#   recipe clean CACHE  removes what a build that was killed left behind
#
# The tar appears by a rename when it is whole. Needs root and zstd.
#
# A recipe sets: here, its directory; announce, the line that says what is being made; needs_mb, the
# room it takes below the cache meanwhile; tools, the programs that make() runs; inputs(), which
# prints all that the result depends on. make() fills $work/root and tells its failures with explain.
# shellcheck shell=bash
# shellcheck disable=SC2154 # set by the recipe that sources this
set -eEuo pipefail

template=$(basename "$here")

say() { printf '%s\n' "$*" >&2; }
die() {
    say "$template template: $*"
    exit 1
}

# What nobody foresaw has a sentence as well. A subshell's failure counts where it ends the recipe.
trap 'status=$?; [ "$BASH_SUBSHELL" -gt 0 ] ||
    say "$template template: line $LINENO failed with status $status: $BASH_COMMAND"' ERR

# A new name costs every machine the time to make the template and those over it again. So the name
# follows from the functions of this file that touch the content, the recipe without its comments, and
# its inputs.
name() {
    local digest
    digest=$({ declare -f open_local compress && sed '/^ *\(#\|$\)/d' "$here/recipe" && inputs; } | sha256sum)
    echo "$template-${digest:0:12}"
}

# The words of a list with one line per purpose, in which '#' begins a comment.
words() {
    sed 's/#.*//' "$1" | xargs
}

# mawk, Debian's own, waits for a full buffer unless it is told.
awk_live() {
    case $(awk -W version 2>&1 </dev/null) in
    mawk*) awk -W interactive "$@" ;;
    *) awk "$@" ;;
    esac
}

# The many lines of apt and mmdebstrap become a step and a count; all are kept in the file $1.
progress() {
    awk_live -v log_file="$1" '
        function show(text) { printf "  %s\n", text > "/dev/stderr"; fflush("/dev/stderr") }
        function count(verb, n) { if (n % 50 == 0) show(verb " " n " of " total) }
        { print > log_file; fflush(log_file) }
        /newly installed/ { for (i = 2; i <= NF; i++) if ($i == "newly") total += $(i - 1) }
        /^(I: running apt-get update|Reading package lists)/ && !lists++ { show("reading the package lists") }
        /^Get:/ && total { count("fetched", ++got) }
        /^I: downloading packages/ { show("fetching the minimal system") }
        /^I: extracting archives/ { show("extracting the minimal system") }
        /^I: installing essential/ { show("installing the minimal system") }
        /^I: installing remaining/ { show("installing the packages") }
        /^Unpacking / { count("unpacked", ++unpacked) }
        /^Setting up / { count("set up", ++done) }
        /^I: cleaning/ { show("cleaning up") }
    '
}

# A slow network or disk makes pauses between steps: nobody waits in the dark.
heartbeat() {
    while sleep 15 >/dev/null 2>&1; do
        say "  $SECONDS s, $(du -smx "$work" 2>/dev/null | cut -f1) MB so far"
    done
}

# Why it failed, from what was said last.
explain() {
    local log=$1 free_mb
    : >>"$log" # nothing may have been said
    free_mb=$(df -Pm "$work" | awk 'NR == 2 { print $4 }')
    if grep -qi 'no space left on device' "$log" || [ "$free_mb" -lt 64 ]; then
        die "no space left below $cache ($free_mb MB free): it needs about $needs_mb MB while it is made"
    elif grep -qiE 'temporary failure (in name resolution|resolving)|could not resolve|could not connect|unable to connect|connection timed out|network is unreachable|ENOTFOUND|EAI_AGAIN|Failed to establish a new connection' "$log"; then
        die "what it is made of cannot be reached: check the network, then start again"
    fi
    tail -n 5 "$log" >&2
    die "it could not be made; the last lines of what failed are above"
}

# A killed build's directories are nobody's; those of one that holds the lock are not touched.
clean() {
    exec 9>"$cache/templates/.lock"
    if flock -n 9; then
        rm -rf --one-file-system "$cache"/templates/.making.*
    fi
}

# open_local ROOT: anyone may write below /usr/local, as in E2B's templates: `npm install -g` needs no
# sudo. Python's modules are left out. Where its user may write there, Debian's pip does not install
# for that user alone: it tries to remove the module that Debian's package brought, and cannot.
open_local() {
    [ ! -d "$1/usr/local" ] || (cd "$1/usr/local" &&
        find . -path './lib/python3*/dist-packages' -prune -o ! -type l -exec chmod 777 {} +)
}

compress() {
    say "  compressing"
    # Devices are left out: every sandbox gets a /dev of its own.
    tar --create --directory "$work/root" --numeric-owner --sort=name --exclude='./dev/*' \
        --xattrs --xattrs-include='*' . 2>>"$work/log" |
        zstd -q -T0 -3 -o "$work/root.tar.zst" 2>>"$work/log" || explain "$work/log"
    sync "$work/root.tar.zst"
}

build() {
    local name out tool
    name=$(name)
    out=$cache/templates/$name.tar.zst

    [ "$(id -u)" = 0 ] || die "must be made as root"
    for tool in zstd flock $tools; do
        command -v "$tool" >/dev/null || die "$tool is missing: install it with apt-get install $tool"
    done
    mkdir -p "$cache/templates"

    # One maker at a time; what an earlier, killed one left behind is nobody's then.
    exec 9>"$cache/templates/.lock"
    flock -n 9 || { say "  waiting for another start that makes a template" && flock 9; }
    rm -rf --one-file-system "$cache"/templates/.making.*
    [ -e "$out" ] && return 0

    work=$(mktemp -d "$cache/templates/.making.XXXXXX")
    chmod 0755 "$work"
    say "$announce"
    heartbeat 9>&- &
    heartbeat=$!
    trap 'kill "$heartbeat" 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
    trap 'exit 130' INT TERM HUP

    # The lock stays ours alone: no process that outlives a failed run may hold it.
    make 9>&-
    compress
    mv "$work/root.tar.zst" "$out"
    say "  done: $(du -m "$out" | cut -f1) MB in $out"
}

recipe_main() {
    case "${1:-}" in
    name) name ;;
    build)
        cache=${2:?usage: recipe build CACHE}
        build
        ;;
    clean)
        cache=${2:?usage: recipe clean CACHE}
        clean
        ;;
    *) die "usage: recipe name | recipe build CACHE | recipe clean CACHE" ;;
    esac
}
