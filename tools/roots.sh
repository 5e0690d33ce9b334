# roots.sh - Debian roots of another release than this machine's, for tools/clean-root and
# tests/machines. Sourced after common.sh.
# shellcheck shell=bash

# debian_codename 12|13: prints the release's name in the archive; nothing for any other.
debian_codename() {
    case $1 in
    12) echo bookworm ;;
    13) echo trixie ;;
    esac
}

# debian_sources CODENAME: the sources of this machine's apt with the other release's name. Empty where
# apt has no lists yet: then mmdebstrap takes its own.
debian_sources() {
    # shellcheck disable=SC2016 # for apt
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
        sort -u | while read -r label uri; do
        case $label in
        Debian) printf 'deb %s %s main\n' "$uri" "$1" "$uri" "$1-updates" ;;
        Debian-Security) printf 'deb %s %s main\n' "$uri" "$1-security" ;;
        esac
    done
}

# debian_root CODENAME ROOT PACKAGES [mmdebstrap options]: makes a root. mmdebstrap fetches into it;
# what it fetched is copied to the directory PACKAGES for the next time.
debian_root() {
    local codename=$1 root=$2 packages=$3 list
    shift 3
    list=$(debian_sources "$codename")
    # shellcheck disable=SC2016 # for the hooks' shell
    mmdebstrap --quiet --skip=download/empty --skip=essential/unlink \
        --setup-hook='mkdir -p "$1/var/cache/apt/archives"' \
        --setup-hook="find '$packages' -name '*.deb' -exec cp -t \"\$1/var/cache/apt/archives\" {} +" \
        "$@" \
        --customize-hook="cp -u \"\$1\"/var/cache/apt/archives/*.deb '$packages'" \
        --customize-hook='rm -f "$1"/var/cache/apt/archives/*.deb' \
        "$codename" "$root" ${list:+-} <<<"$list"
}

# commit_clone TREE COMMIT DIR: the process on git's other side hears of a tree of another user only by
# the user's configuration, which is a file of its own here.
commit_clone() {
    local config
    config=$(mktemp)
    printf '[safe]\n\tdirectory = *\n[advice]\n\tdetachedHead = false\n' >"$config"
    GIT_CONFIG_GLOBAL=$config git init -q "$3"
    GIT_CONFIG_GLOBAL=$config git -C "$3" fetch -q --depth 1 "file://$1" "$2"
    GIT_CONFIG_GLOBAL=$config git -C "$3" checkout -q FETCH_HEAD
    rm -f "$config"
}

# root_connect ROOT: puts it into this machine's network: its resolver, its proxies, its authorities.
root_connect() {
    local file
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
    cp -L /etc/hosts "$1/etc/hosts"
    cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
    apt-config dump | sed -nE '/^Acquire::(https?|Check-Valid-Until|Retries)\b/p' \
        >"$1/etc/apt/apt.conf.d/99host"
    for file in /etc/pip.conf /etc/npmrc; do
        [ ! -f "$file" ] || cp -L "$file" "$1$file"
    done
}
