#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Issue 2, the main job: one line for each thing that it must show, and exit status 1 after any FAIL.
# `make acceptance ONLY=main-job` runs it from the repository root; tests/acceptance/lib/items.sh has the
# variables.
ISSUE=main-job
# shellcheck source=tests/acceptance/lib/items.sh
. "$(dirname "$0")/lib/items.sh"

# ---- 1: the demo ----

demo_value() { sed -n "s/^releases $1: //p" "$2" | tail -n 1; }

run_demo() # FILE [CAP=...]
{
    local out=$1
    shift
    make demo BUILD="$build" "$@" >"$out" 2>&1 && return 0
    cat "$out" >>"$work/log"
    echo "make demo $* failed"
    return 1
}

demo()
{
    local began=$SECONDS seconds
    run_demo "$work/demo" || return 1
    seconds=$((SECONDS - began))
    run_demo "$work/demo-cap" CAP=0.05 || return 1
    cat "$work/demo" "$work/demo-cap" >>"$work/log"
    echo "in warm-up $(demo_value 'in warm-up' "$work/demo"), while serving" \
        "$(demo_value 'while serving' "$work/demo"), $seconds s; with CAP=0.05" \
        "$(demo_value 'while serving' "$work/demo-cap") while serving"
    tail -n 2 "$work/demo" >"$work/end"
    printf 'releases in warm-up: 2\nreleases while serving: 0\n' | cmp -s - "$work/end" &&
        [ "$seconds" -lt 60 ] && [ "$(demo_value 'while serving' "$work/demo-cap")" -gt 0 ]
}

# ---- 2: make test ----

suites()
{
    local rc
    "$@" >"$work/suites" 2>&1
    rc=$?
    tail -n 1 "$work/suites"
    if [ $rc -ne 0 ]; then
        grep -A 20 '^not ok' "$work/suites" >>"$work/log"
        return 1
    fi
    for suite in unit conformance integration lint; do
        grep -q "^ok - $suite/" "$work/suites" && continue
        echo "no test of $suite was run"
        return 1
    done
}

test_suites() { suites make test BUILD="$build"; }

# ---- 3: the vectors ----

start_daemon()
{
    "$build/dlod" --telemetry worker --set allow_never=true --socket "$work/s" 2>"$work/dlod.log" &
    daemon=$!
    # until it answers; a run that never does ends by the count, one whose daemon ended at once
    for _ in $(seq 500); do
        logged "$build/dlo-ctl" status --socket "$work/s" && return 0
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.02
    done
    echo "dlod does not answer"
    cat "$work/dlod.log" >>"$work/log"
    kill "$daemon" 2>/dev/null
    return 1
}

stop_daemon()
{
    kill "$daemon"
    wait "$daemon"
}

# changed FILE [OPTION]...: with one other expected value replay exits 1 and names file, line, key.
changed()
{
    local file=$1 line rc
    shift
    line=$(grep -n 'peak=[0-9]' "$file" | head -n 1 | cut -d : -f 1)
    sed "${line}s/\(->.*peak=\)[0-9]*/\19999999/" "$file" >"$work/changed.trace"
    "$build/dlo-ctl" replay --check "$@" "$work/changed.trace" >"$work/found" 2>&1
    rc=$?
    cat "$work/found" >>"$work/log"
    if [ $rc -ne 1 ] || ! grep -q "^$work/changed.trace:$line: peak: expected 9999999, got " "$work/found"; then
        echo "a changed value${1:+ with $1}: exit status $rc"
        return 1
    fi
}

vectors()
{
    local all=() live=() f result=0
    for f in "$shared"/spec/vectors/*.trace "$shared"/traces/h3-*.trace; do
        [ -f "$f" ] || continue
        all+=("$f")
        grep -q '^sample ' "$f" || live+=("$f")
    done
    if [ ${#all[@]} -lt 2 ] || [ ${#live[@]} -lt 1 ]; then
        echo "there are no vectors in $shared/spec/vectors and $shared/traces (DLO_SHARED names another folder)"
        return 1
    fi
    "$build/dlo-ctl" replay --check "${all[@]}" >"$work/offline" 2>&1 || result=1
    cat "$work/offline" >>"$work/log"
    echo "offline: $(tail -n 1 "$work/offline");"
    start_daemon || return 1
    "$build/dlo-ctl" replay --check --live --socket "$work/s" "${live[@]}" >"$work/live" 2>&1 || result=1
    cat "$work/live" >>"$work/log"
    echo "live: $(tail -n 1 "$work/live");"
    changed "${live[0]}" || result=1
    changed "${live[0]}" --live --socket "$work/s" || result=1
    stop_daemon
    [ $result -ne 0 ] || echo "a changed value is found by both"
    return $result
}

# ---- 4 to 7: integration programs, or some of their cases ----

# cases FILE [WORD]...
cases()
{
    local out=$work/cases rc ok skipped
    TMPDIR=$work python3 "tests/integration/$1" "${@:2}" >"$out" 2>&1
    rc=$?
    ok=$(grep -c '^ok' "$out")
    skipped=$(grep -c '^ok.*# SKIP' "$out")
    echo "$1: $((ok - skipped)) passed, $(grep -c '^not ok' "$out") failed, $skipped skipped"
    cat "$out" >>"$work/log"
    [ $rc -eq 0 ] && [ "$ok" -gt "$skipped" ] || return 1
    if [ "$skipped" -gt 0 ]; then
        sed -n 's/^ok - .*# SKIP/skipped:/p' "$out"
        return 77
    fi
}

kills() { cases test_client.py; }
hung_probe() { cases test_probe.py; }
hostile()
{
    if grep -q -e -fsanitize "$build/flags" 2>/dev/null; then
        echo "$build is not a plain build"
        return 77
    fi
    cases test_hostile.py random never floods storm without
}
status_of_1024() { cases test_hostile.py 1024; }

# ---- 8: lint ----

lint()
{
    local result=0
    make lint BUILD="$build" >"$work/lint" 2>&1 || result=1
    tests/lint/selftest.sh >"$work/selftest" 2>&1 || result=1
    cat "$work/lint" "$work/selftest" >>"$work/log"
    for planted in 'an upward include' 'a malloc in policy'; do
        grep -q "^ok - lint notices $planted" "$work/selftest" && continue
        echo "$planted is not noticed"
        result=1
    done
    echo "$(grep -c '^ok' "$work/lint") facts, $(grep -c '^ok' "$work/selftest") planted mistakes noticed"
    return $result
}

# ---- 9: a German locale ----

german()
{
    logged tests/locale.sh "$build/locale" || return 1
    # not the word of the script that made it: what printf does there
    LOCPATH=$build/locale LC_ALL=de_DE.UTF-8 bash -c 'printf "%.1f" "1,5"' >"$work/point" 2>>"$work/log"
    echo "1,5 is printed as $(cat "$work/point");"
    [ "$(cat "$work/point")" = 1,5 ] || return 1
    suites tests/locale.sh "$build/locale" make test BUILD="$build"
}

# ---- 10: sanitizers and valgrind ----

checkers()
{
    local c result=0
    if [ -n "${ACCEPTANCE_FAST:-}" ]; then
        echo "ACCEPTANCE_FAST is set; it takes minutes"
        return 77
    fi
    for c in check-asan check-tsan check-valgrind; do
        if make $c >"$work/checker" 2>&1; then
            echo "$c: $(tail -n 1 "$work/checker");"
        else
            echo "$c failed;"
            grep -A 30 '^not ok' "$work/checker" | tail -n 60 >>"$work/log"
            tail -n 3 "$work/checker" >>"$work/log"
            result=1
        fi
    done
    return $result
}

item 1 'make demo ends with 2 releases in warm-up and 0 while serving, within a minute' demo
item 2 'make test passes: unit, conformance, integration, lint' test_suites
item 3 'replay --check holds for all vectors, offline and live' vectors
item 4 'a killed or stopped daemon fails no worker, delays none, and loses nothing' kills
item 5 'a hung probe blocks nobody' hung_probe
item 6 'floods, deaf peers and 100,000 random packets cost no memory and no service' hostile
item 7 'the status of 1,024 sessions is complete, a reader that stops costs nothing' status_of_1024
item 8 'make lint passes; a planted upward include and a planted malloc fail it' lint
item 9 'the whole suite passes under a German locale' german
item 10 'make check-asan check-tsan check-valgrind are clean' checkers
exit $failed
