# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the scripts that source it use them
# What the acceptance scripts share, sourced after ISSUE is set to the script's name. One line an item:
#     PASS|FAIL|SKIP ISSUE N: what -- evidence
#   DLO_BUILD          the build folder (build)
#   DLO_SHARED         the folder with spec/vectors, traces and tools (../shared)
#   ACCEPTANCE_FAST=1  skips what takes minutes
#   ACCEPTANCE_ITEMS   only these numbers, as in "3 4"
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
build=${DLO_BUILD:-$PWD/build}
shared=${DLO_SHARED:-../shared}
export DLO_BUILD=$build
unset MAKEFLAGS MFLAGS MAKELEVEL # what is made here is not part of the make that called
work=$(mktemp -d) # mode 0700: a socket in it is trusted
failed=0
trap 'rm -rf "$work"' EXIT

# say WORD NUMBER TEXT EVIDENCE
say()
{
    printf '%s %s %s: %s -- %s\n' "$1" "$ISSUE" "$2" "$3" "$4"
    [ "$1" != FAIL ] || failed=1
}

# The last lines of a log, below a FAIL.
show()
{
    tail -n "${2:-25}" "$1" | sed 's/^/    /'
}

# item NUMBER TEXT FUNCTION: the function prints its evidence and returns 0; 77 is SKIP. What it
# wants to be seen after a failure it leaves in $work/log.
item()
{
    local evidence rc
    case " ${ACCEPTANCE_ITEMS:-$1} " in
    *" $1 "*) ;;
    *) return 0 ;;
    esac
    : >"$work/log"
    evidence=$("$3" 2>>"$work/log" | tr '\n' ' ')
    rc=$?
    evidence=${evidence% }
    case $rc in
    0) say PASS "$1" "$2" "$evidence" ;;
    77) say SKIP "$1" "$2" "$evidence" ;;
    *)
        say FAIL "$1" "$2" "${evidence:-exit status $rc}"
        show "$work/log"
        ;;
    esac
}

# logged COMMAND...: its output goes to the log only.
logged() { "$@" >>"$work/log" 2>&1; }
