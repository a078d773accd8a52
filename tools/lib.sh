# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# lib.sh - what tools/test and tools/demo share. Sourced by bash, with the top of the tree as the
# working directory.

say() {
    printf '\n== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# The packages of the groups given, from tools/packages.
packages_of() {
    local name group _
    sed 's/#.*//' tools/packages | while read -r name group _; do
        case " $* " in
        *" ${group:-build} "*) [ -n "$name" ] && printf '%s\n' "$name" ;;
        esac
    done | sort -u
}

package_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
    local p
    for p in $(packages_of "$@"); do
        package_installed "$p" || printf '%s\n' "$p"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "needs root or sudo for: $*"
    fi
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 \
        -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# install_groups REQUIRED-GROUP [OPTIONAL-GROUP...]: install what is missing, and only that. What
# apt does not know is an error in the first group; in the others it is named and left out.
install_groups() {
    local required=$1 p want=() unknown=() missing
    shift
    command -v dpkg-query >/dev/null ||
        die "this is no Debian system: install by hand what tools/packages lists, then use --no-install"
    missing=$(missing_of "$required" "$@")
    [ -n "$missing" ] || return 0
    say "Installing: $(echo "$missing" | tr '\n' ' ')"
    apt_get update >/dev/null || die "apt-get update failed (offline?); missing packages: $(echo "$missing" | tr '\n' ' ')"
    for p in $missing; do
        if apt-cache show "$p" >/dev/null 2>&1; then
            want+=("$p")
        elif packages_of "$required" | grep -qxF -- "$p"; then
            die "apt does not know the package $p, and nothing can be built without it"
        else
            unknown+=("$p")
        fi
    done
    if [ "${#unknown[@]}" -gt 0 ]; then
        printf 'left out, not known to apt: %s\n' "${unknown[*]}"
    fi
    [ "${#want[@]}" -gt 0 ] || return 0
    apt_get install --no-install-recommends "${want[@]}" >/dev/null ||
        die "apt-get install failed; the packages were: ${want[*]}"
}

# The files of the project that match the patterns: what git knows or would add; in an unpacked
# archive, everything outside of build folders.
project_files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do
            [ -f "$f" ] && printf '%s\n' "$f"
        done
    else
        local p
        for p in "$@"; do
            find . -path './build*' -prune -o -type f -path "./$p" -print
        done
    fi
}

# setup DIR ARGUMENTS...: configure a build folder, or bring an old one up to date.
setup() {
    local dir=$1
    shift
    if [ -f "$dir/meson-private/coredata.dat" ]; then
        meson setup --reconfigure "$dir" "$@"
    else
        meson setup "$dir" "$@"
    fi
}
