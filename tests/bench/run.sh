#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench: what an ask costs, as ratios against a baseline of the same run. Nothing is asserted.
# Prints one JSON object with the machine it ran on, and keeps it in $BUILD/bench.json.
set -euo pipefail

build=${BUILD:-build}
dir=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

taskset -c 0 "$build/dlod" --telemetry worker --socket "$dir/dlod.sock" --log-level warning &
daemon=$!
for _ in $(seq 200); do
    "$build/dlo-ctl" status --socket "$dir/dlod.sock" >/dev/null 2>&1 && break
    kill -0 "$daemon" || exit 1
    sleep 0.01
done

"$build/programs/bench_ask" "$dir/dlod.sock" >"$dir/ask.json"
printf '{\n "kernel": "%s", "cpu": "%s", "cpus": %s, "commit": "%s", "load": "%s",\n "ask": %s\n}\n' \
    "$(uname -r)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$(cut -d' ' -f1 /proc/loadavg)" \
    "$(cat "$dir/ask.json")" | tee "$build/bench.json"
