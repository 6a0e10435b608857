#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make check-gpu: the programs of the demo and the examples on a real driver and device: dlod with each
# backend, workers that send their own reading and one that does not, and the journal replayed. Uses about 4 GB
# of the first GPU for some seconds. Without a driver or a device: SKIP, loudly.
set -euo pipefail

build=${DLO_BUILD:-build}
skip() {
    echo "SKIP check-gpu: $1; nothing was checked on a real GPU"
    exit 0
}
ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' || skip "no libcuda.so.1 on this machine"
compgen -G '/dev/nvidia[0-9]*' >/dev/null || skip "no /dev/nvidia* device node"

dir=$(mktemp -d)
daemon=
failed=0
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; wait || true; rm -rf "$dir"' EXIT

# check TEXT COMMAND...
check() {
    local text=$1
    shift
    if "$@" >"$dir/out" 2>&1; then
        echo "ok - $text"
    else
        echo "not ok - $text"
        tail -n 20 "$dir/out" "$dir/log"
        failed=1
    fi
}

for backend in nvml cuda; do
    "$build/dlod" --gpu 0 --telemetry "$backend" --socket "$dir/dlod.sock" \
        --journal-file "$dir/$backend.trace" 2>"$dir/log" &
    daemon=$!
    for _ in $(seq 500); do
        "$build/dlo-ctl" status --socket "$dir/dlod.sock" >"$dir/status" 2>&1 && break
        sleep 0.01
    done
    check "$backend: a worker with its own reading" \
        "$build/programs/h3_worker" --socket "$dir/dlod.sock" --shape small --name paired
    check "$backend: a worker that leaves it to the probe" \
        "$build/programs/h3_worker" --socket "$dir/dlod.sock" --shape small --name unpaired --no-pair
    check "$backend: the C example, with stager and pool adapter" \
        env DLO_SOCKET="$dir/dlod.sock" "$build/examples/worker" 3
    grep -q '^request transformer: retain' "$dir/out" || failed=1
    check "$backend: the Python example, with the driver's pool" \
        env DLO_SOCKET="$dir/dlod.sock" DLO_LIBRARY="$build/libdlo-client.so.0" \
        PYTHONPATH="$(dirname "$0")/../../client/python" \
        python3 "$(dirname "$0")/../../client/examples/worker.py" 3
    "$build/dlo-ctl" status --socket "$dir/dlod.sock" || failed=1
    kill "$daemon"
    wait "$daemon" || failed=1
    daemon=
    check "$backend: the journal replays" "$build/dlo-ctl" replay --check "$dir/$backend.trace"
done
exit $failed
