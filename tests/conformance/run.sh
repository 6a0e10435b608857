#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plays the traces of this folder (and those beside the repository, where they are) through
# `dlo-ctl replay --check`. usage: run.sh [BUILD]
# shellcheck disable=SC2317 # functions run through check()
set -u
[ $# -le 1 ] || {
    echo "usage: $0 [BUILD]" >&2
    exit 2
}
ctl=$(cd "${1:-${DLO_BUILD:-build}}" && pwd)/dlo-ctl
cd "$(dirname "$0")" || exit 2
shared=../../../shared
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
n=0
failed=0

# TEXT COMMAND...: one line of TAP; the output of a command that fails follows as comments
check() {
    text=$1
    shift
    n=$((n + 1))
    if "$@" >"$work/out" 2>&1; then
        echo "ok $n - $text"
    else
        echo "not ok $n - $text"
        sed 's/^/# /' "$work/out" | head -20
        failed=1
    fi
}

# STATUS PATTERN ARGUMENT...: replay exits so and prints such a line
expect() {
    status=$1 pattern=$2
    shift 2
    "$ctl" replay "$@" >"$work/got" 2>&1
    is=$?
    cat "$work/got"
    echo "exit status $is, expected $status; pattern $pattern"
    [ "$is" -eq "$status" ] && grep -q -- "$pattern" "$work/got"
}

regenerate() {
    python3 generate.py >"$work/again.trace" && cmp learned-seeded.trace "$work/again.trace"
}

# What replay prints with --bytes is a trace that checks without a difference.
print_and_check() {
    "$ctl" replay --bytes "$1" >"$work/printed.trace" && "$ctl" replay --check "$work/printed.trace"
}

# SED-SCRIPT LINE KEY EXPECTED GOT: one value changed in a copy is found where it stands
mutate() {
    sed "$1" rules.trace >"$work/mutated.trace"
    ! cmp -s rules.trace "$work/mutated.trace" &&
        expect 1 "^$work/mutated.trace:$2: $3: expected $4, got $5\$" --check "$work/mutated.trace"
}

for trace in *.trace; do
    check "$trace" "$ctl" replay --check "$trace"
done
for trace in "$shared"/spec/vectors/*.trace "$shared"/traces/h3-*.trace; do
    [ -e "$trace" ] || continue
    check "${trace#"$shared"/}" "$ctl" replay --check "$trace"
done
check "generate.py writes the same file again" regenerate
check "what replay prints is a trace again" print_and_check rules.trace

# The check has teeth: one changed value is one difference with its place.
line=$(grep -n 'n=42$' rules.trace | cut -d: -f1)
check "a changed number is found" mutate "${line}s/budget=100/budget=101/" "$line" budget 101 100
check "a changed reason is found" mutate "${line}s/within_budget/quiet/" "$line" reason quiet within_budget
check "a changed answer is found" mutate "${line}s/-> retain/-> release/" "$line" answer release retain
check "a changed input is found" mutate "${line}s/reserved=100/reserved=99/" "$line" peak 100 99
line=$(grep -n 'error reason=overflow$' rules.trace | cut -d: -f1)
check "a changed error is found" mutate "${line}s/overflow/limit/" "$line" reason limit overflow

# Files that cannot be played name file and line.
printf '# dlo-trace 1\nopen s=1\nask s=1 reserved=12x allocated=0\n' >"$work/bad.trace"
check "a bad number names file, line and key" \
    expect 1 "^$work/bad.trace:3: ask: reserved: not a number: 12x\$" --check "$work/bad.trace"
printf '# dlo-trace 1\nopen s=1\nask s=2 force=failure\n' >"$work/bad.trace"
check "a session that is not open names file and line" \
    expect 1 "^$work/bad.trace:3: ask: s: no session 2 is open\$" "$work/bad.trace"
printf '# dlo-trace 1\nopen s=1 t=2\nclose s=1 t=1\n' >"$work/bad.trace"
check "time that runs backwards is an error" \
    expect 1 "^$work/bad.trace:3: close: t: runs backwards: 1\$" "$work/bad.trace"
printf '# dlo-trace 1\nopen s=1\noom s=1 need=1 call=1\nend call=1 -> granted\n' >"$work/bad.trace"
check "an answer that the arbiter does not give is a difference" \
    expect 1 "^$work/bad.trace:4: end: expected 1, got nothing\$" --check "$work/bad.trace"
printf '# dlo-trace 1\nopen s=1\noom s=1 need=1 call=1\nsample free=2 total=9\n' >"$work/bad.trace"
check "an answer that is missing is a difference" \
    expect 1 "^$work/bad.trace:4: end: expected nothing, got 1\$" --check "$work/bad.trace"
printf '# dlo-trace 1\nopen s=1\nlease s=1 kind=shared call=1 -> ok\n' >"$work/bad.trace"
check "a lease that is granted at once is a difference too" \
    expect 1 "^$work/bad.trace:3: end: expected nothing, got 1\$" --check "$work/bad.trace"
printf '# dlo-trace 1\nopen s=1\nclose s=1\n' >"$work/empty.trace"
check "nothing to compare is status 2" expect 2 '^compared 0 keys' --check "$work/empty.trace"
check "an unknown option is status 2" expect 2 . --nonsense "$work/empty.trace"

# --compare: where the file says what an empty cache would have held, the loop is closed.
cat >"$work/loop.trace" <<'END'
# dlo-trace 1
open s=1 peak=80
ask s=1 reserved=90 allocated=0 free=900 total=1000
ask s=1 reserved=95 allocated=0 from_empty=60 free=900 total=1000
close s=1
END
check "compare takes what is recorded where the cache was kept" \
    expect 0 '^learned  *2  *0  *0  *95$' --compare --bytes "$work/loop.trace"
check "compare closes the loop where it was released" \
    expect 0 '^always  *2  *2  *150  *0$' --compare --bytes "$work/loop.trace"
check "compare has rows for programs" expect 0 '"schema": 1' --compare --json "$work/loop.trace"
check "a policy for all sessions" expect 0 'budget=18446744073709551615' --policy never --bytes rules.trace
echo "1..$n"
exit $failed
