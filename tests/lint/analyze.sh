#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The static analysers over daemon, client and proto; no finding is the aim and the rule. Prints
# "ok - TOOL" or "not ok - TOOL" with what it found. BUILD has the generated header.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t sources < <(find daemon client proto -name '*.c' | LC_ALL=C sort)
flags=(-std=gnu11 -D_GNU_SOURCE "-DDLO_VERSION=\"0\"" -I. -Iclient/include "-I$build/gen")
jobs=$(nproc)
status=0

report()
{
    if [ "$2" -eq 0 ] && [ ! -s "$work/out" ]; then
        echo "ok - $1"
    else
        echo "not ok - $1"
        head -n 200 "$work/out"
        status=1
    fi
}

# gcc 12's -fanalyzer takes stdin for a file that we opened and must close (replay_file.c).
# It also loses members of small structs that functions return (handle_view.c).
# cppcheck's arrayIndexThenCheck warns of loops that end at the NUL of a bounded text.
printf '%s\0' "${sources[@]}" |
    xargs -0 -P "$jobs" -n 1 "${CC:-gcc}" "${flags[@]}" -O2 -fanalyzer -Wno-analyzer-file-leak -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value -c -o /dev/null >"$work/out" 2>&1
report 'gcc -fanalyzer' $?

printf '%s\0' "${sources[@]}" |
    xargs -0 -P "$jobs" -I{} clang-tidy --quiet {} -- "${flags[@]}" 2>/dev/null >"$work/out"
report 'clang-tidy' $?

cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr -j "$jobs" \
    --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=arrayIndexThenCheck '--suppress=preprocessorErrorDirective:*dlo.pb-c.h' --error-exitcode=1 \
    --template='{file}:{line}: {id}: {message}' -D_GNU_SOURCE -D__GNUC__ '-DDLO_VERSION="0"' \
    -I. -Iclient/include "-I$build/gen" "${sources[@]}" >"$work/out" 2>&1
report 'cppcheck' $?
exit $status
