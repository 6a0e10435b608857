#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Gets the Debian packages that a group of make targets needs, saying which are missing.
# Usage: tests/make/packages.sh GROUP...   (build test format analyze clang fuzz valgrind shell all)
#   NO_INSTALL=1  say what to type instead of installing
# Exit status: 0 everything is there now, 1 something is missing, 2 a usage error.

set -eu

packages_of()
{
    case $1 in
    build)
        echo gcc libc6-dev make binutils pkg-config libuv1-dev libprotobuf-c-dev \
            protobuf-c-compiler libjansson-dev libinih-dev
        ;;
    test) echo check python3 python3-venv locales ;;
    format) echo clang-format ;;
    analyze) echo clang-tidy cppcheck ;;
    clang) echo clang ;;
    fuzz) echo clang libclang-rt-14-dev ;;
    valgrind) echo valgrind ;;
    shell) echo shellcheck g++ ;;
    all) for group in build test format analyze clang fuzz valgrind shell; do packages_of $group; done ;;
    *)
        echo "packages.sh: there is no group $1" >&2
        exit 2
        ;;
    esac
}

wanted=$(for group in "$@"; do packages_of "$group"; done) || exit 2

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086 # a list of words
    echo "packages.sh: no Debian here; on Debian this needs:" $wanted
    exit 0
fi

missing()
{
    # shellcheck disable=SC2086
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null || true)
    for package in $wanted; do
        case "
$installed
" in
        *"
installed $package
"*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

list=$(missing)
[ -n "$list" ] || exit 0
echo "missing Debian packages: $list"

if [ "$(id -u)" = 0 ]; then
    as_root=
    shown=
elif command -v sudo >/dev/null; then
    as_root=sudo
    shown='sudo '
    # Without a terminal nobody can type a password.
    [ -t 0 ] || as_root='sudo -n'
else
    as_root=none
    shown=
fi

give_up()
{
    echo "$1" >&2
    echo "Type this${2:-}, then run make again:" >&2
    echo "    ${shown}apt-get update && ${shown}apt-get install -y --no-install-recommends $list" >&2
    exit 1
}

[ -z "${NO_INSTALL:-}" ] || give_up "NO_INSTALL is set, so nothing is installed."
[ "$as_root" != none ] || give_up "There is no sudo here, and this is not root." " as root"

apt()
{
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
        apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

install()
{
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $list
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing them with ${shown}apt-get (this can take a minute)..."
if ! install >"$log" 2>&1; then
    # The package lists are empty or old.
    if ! { apt update && install; } >>"$log" 2>&1; then
        tail -n 15 "$log" >&2
        give_up "The packages could not be installed (apt-get's last lines are above)."
    fi
fi
list=$(missing)
[ -z "$list" ] || give_up "These packages are still missing: $list"
