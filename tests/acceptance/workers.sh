#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Issue 3, real workers: one line for each thing that it must show, and exit status 1 after any FAIL.
# `make acceptance ONLY=workers` runs it from the repository root; tests/acceptance/lib/items.sh has the
# variables, and:
#   UPSTREAM   the folder with vLLM-Omni's test files for item 3 (tests/upstream/check.sh says which)
ISSUE=workers
# shellcheck source=tests/acceptance/lib/items.sh
. "$(dirname "$0")/lib/items.sh"

# unit PROGRAM CASE...: the program passes, and each of these cases was among those that ran.
unit()
{
    local program=$1 case
    shift
    CK_VERBOSITY=verbose LD_LIBRARY_PATH=$build/simgpu "$build/unit/$program" >"$work/unit" 2>&1 ||
        { cat "$work/unit" >>"$work/log"; echo "$program failed"; return 1; }
    for case in "$@"; do
        grep -qE ":P:[^:]*:$case(:|$)" "$work/unit" || { echo "$program has no case $case"; return 1; }
    done
    grep -oE 'Checks: [0-9]+, Failures: 0, Errors: 0' "$work/unit" | sed "s/^/$program /"
}

# suite FILE CASE...: the same for an integration program.
suite()
{
    local file=$1 case
    shift
    (cd tests/integration && "./$file") >"$work/suite" 2>&1 ||
        { cat "$work/suite" >>"$work/log"; echo "$file failed"; return 1; }
    for case in "$@"; do
        grep -qE "^ok - $case \(" "$work/suite" || { echo "$file did not run: $case"; return 1; }
    done
    echo "$file $(grep -c '^ok - ' "$work/suite") passed;"
}

stager()
{
    unit test_stager views_of_one_storage_stay_aliases out_of_memory_is_retried_once_after_a_release \
        a_failed_load_ends_on_the_masters a_failed_offload_ends_on_the_masters \
        loading_and_offloading_twice_does_nothing after_the_end_of_the_context_nothing_is_called &&
        unit test_stager_random random_operations_leak_nothing && echo "(10,000 operations)"
}

pool()
{
    unit test_pool without_the_daemon_the_driver_keeps_the_cap the_same_is_learned_as_without_a_threshold \
        an_exportable_pool_is_reported_as_not_releasable a_borrowed_exportable_pool_is_not_asked_for_ever \
        a_release_is_proven
}

upstream()
{
    DLO_BUILD=$build tests/upstream/check.sh "${UPSTREAM:-}" >"$work/upstream" 2>&1 ||
        { cat "$work/upstream" >>"$work/log"; echo "check-upstream failed"; return 1; }
    if grep -q '^SKIP' "$work/upstream"; then
        cat "$work/upstream"
        return 77
    fi
    [ "$(grep -c '^PASS' "$work/upstream")" -ge 9 ] || { echo "too few runs"; return 1; }
    sed -nE 's/^PASS (.*): ([0-9]+) passed.*/\1 \2;/p' "$work/upstream"
}

hosts()
{
    if [ -n "${ACCEPTANCE_FAST:-}" ]; then
        echo "ACCEPTANCE_FAST is set; it downloads gigabytes"
        return 77
    fi
    DLO_BUILD=$build tests/hosts/check.sh >"$work/hosts" 2>&1 ||
        { cat "$work/hosts" >>"$work/log"; echo "check-hosts failed"; return 1; }
    if grep -q '^SKIP' "$work/hosts"; then
        cat "$work/hosts"
        return 77
    fi
    grep '^python ' "$work/hosts"
    echo "$(grep -c '^PASS' "$work/hosts") passed"
}

oracle()
{
    [ -f "$shared/tools/oracle.py" ] || { echo "no $shared/tools/oracle.py (DLO_SHARED)"; return 1; }
    DLO_SHARED=$(cd "$shared" && pwd) DLO_STEPS=100000 suite test_python_oracle.py \
        'random steps equal the rules' 'random steps equal the shared oracle' || return 1
    sed -n 's/^# //p' "$work/suite"
}

processes()
{
    suite test_python.py 'the child of a fork is a worker of its own' \
        'a spawned process gets the cache by pickle' 'eight threads share a cache' \
        'copies are registrations of their own' &&
        suite test_python_away.py 'without a daemon the same policy runs here' \
            'a killed daemon is replaced by the policy and then by its successor' \
            'a stalled daemon costs its deadline once'
}

# As a person types it, in a copy of the tree's package whose library is found where it was built.
doctor()
{
    local v=$work/v out
    python=python3
    [ -x /usr/bin/python3 ] && python=/usr/bin/python3
    logged "$python" -m venv --system-site-packages "$v" || { echo "no python3-venv"; return 1; }
    logged "$v/bin/pip" install --no-index --no-deps client/python || { echo "pip failed"; return 1; }
    export DLO_LIBRARY=$build/libdlo-client.so.0
    "$v/bin/python" -m dlo doctor >"$work/doctor" || { echo "doctor failed"; return 1; }
    cat "$work/doctor" >>"$work/log"
    for out in library socket mode daemon torch host; do
        grep -q "$out" "$work/doctor" || { echo "doctor says nothing of $out"; return 1; }
    done
    ! logged "$v/bin/python" -m dlo doctor --require engaged || { echo "engaged without a daemon"; return 1; }
    "$build/dlod" --telemetry worker --socket "$work/dlod.sock" 2>>"$work/log" &
    local daemon=$!
    for _ in $(seq 100); do
        "$build/dlo-ctl" status --socket "$work/dlod.sock" >/dev/null 2>&1 && break
        read -rt 0.1 <> <(:)
    done
    DLO_SOCKET=$work/dlod.sock "$v/bin/python" -m dlo doctor --require engaged >>"$work/log"
    local rc=$?
    kill $daemon
    wait $daemon
    [ $rc -eq 0 ] || { echo "not engaged with a daemon"; return 1; }
    echo "installed without a network; --require engaged: 1 without a daemon, 0 with one;"
    sed -n 's/^  library  */library /p' "$work/doctor"
}

abi()
{
    local table exported
    CC=${CC:-gcc} tests/abi/check.sh >"$work/abi" 2>&1 || { cat "$work/abi" >>"$work/log"; return 1; }
    table=$(sed -nE 's/^    F\([a-z_]+, (cu[A-Za-z0-9_]+),.*/\1/p' proto/abi/cuda_abi.h | LC_ALL=C sort)
    exported=$(nm -D --defined-only -P "$build/simgpu/libcuda.so.1" | sed -nE 's/^(cu[A-Z]\w*) T.*/\1/p' | LC_ALL=C sort)
    [ -n "$table" ] && [ "$table" = "$exported" ] || { diff <(echo "$table") <(echo "$exported"); return 1; }
    echo "$(wc -l <<<"$table") symbols exported, as in the table;"
    grep 'cuda_abi' "$work/abi"
    ! grep -q 'cuda.*SKIP\|SKIP.*cuda_abi' "$work/abi" || return 77
}

item 1 'stager: aliases, one retry, both failure orders, double calls, failed copy, dead context, no leak' stager
item 2 'pool adapter: the cap without the daemon, the same peaks, IPC pools reported' pool
item 3 "vLLM-Omni's own residency tests: 11/11 substituted, plugged in, without a daemon; 8/8 fixed" upstream
item 4 'released vllm-omni, torch and diffusers (make check-hosts)' hosts
item 5 '100,000 random steps through Python and a live daemon equal the oracle' oracle
item 6 'fork, spawn, threads, pickle and copy, daemon dead, stalled, restarted' processes
item 7 'pip install without a network, doctor, --require engaged' doctor
item 8 'the simulated driver exports the table that check-abi compares with cuda.h' abi
exit $failed
