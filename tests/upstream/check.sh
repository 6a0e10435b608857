#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs vLLM-Omni's own, unmodified residency tests over our class. Usage: check.sh [DIR]
#   DIR  holds upstream/ (with the learned budget) and upstream_v1/ (with the fixed share), each with
#        vllm_omni/diffusion/offloader/{module_residency,tensor_utils}.py, vllm_omni/plugins/__init__.py
#        and tests/diffusion/offloader/test_module_residency.py of that project. They are looked up
#        there and are no part of this tree.
#   DLO_BUILD  the build folder, default build
# Needs python3 with torch, pytest and pytest-mock (Debian: python3-torch python3-pytest
# python3-pytest-mock). One line a run: PASS or FAIL; SKIP without DIR. Exit status 1 after a FAIL.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "${DLO_BUILD:-$root/build}" && pwd)
dir=${1:-}
file=tests/diffusion/offloader/test_module_residency.py
if [ -z "$dir" ] || ! [ -f "$dir/upstream/$file" ]; then
    echo "SKIP check-upstream: no vLLM-Omni files (make check-upstream UPSTREAM=DIR, see tests/upstream/check.sh)"
    exit 0
fi
python=$(command -v python3)
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
if ! "$python" -c 'import torch, pytest, pytest_mock' 2>/dev/null; then
    echo "SKIP check-upstream: $python lacks torch, pytest or pytest-mock"
    exit 0
fi
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; wait; rm -rf "$work"' EXIT
"$python" - "$root/client/python" "$work" <<'PY' || exit 1
import sys
sys.path.insert(0, sys.argv[1])
import dlo_build
dlo_build.prepare_metadata_for_build_wheel(sys.argv[2])
PY
chmod 700 "$work"
"$build/dlod" --telemetry worker --socket "$work/dlod.sock" 2>"$work/dlod.log" &
daemon=$!
for _ in $(seq 100); do "$build/dlo-ctl" status --socket "$work/dlod.sock" >/dev/null 2>&1 && break; read -rt 0.1 <> <(:); done

status=0
# run NAME TREE COUNT PLUGIN [VARIABLE=VALUE...]
run()
{
    local name=$1 tree=$dir/$2 count=$3 plugin=$4 out last
    shift 4
    out=$(env PYTHONDONTWRITEBYTECODE=1 DLO_LIBRARY="$build/libdlo-client.so.0" "$@" \
        PYTHONPATH="$here:$root/client/python:$work:$here/stub:$tree" \
        "$python" -m pytest -p older_torch ${plugin:+-p "$plugin"} -p no:cacheprovider \
        --rootdir="$tree" -q "$tree/$file" 2>&1)
    last=$(tail -n 1 <<<"$out")
    if [[ $last == "$count passed"* ]]; then
        echo "PASS $name: $last"
    else
        echo "FAIL $name: $last (expected $count passed)"
        tail -n 40 <<<"$out" | sed 's/^/    /'
        status=1
    fi
}
live=DLO_SOCKET=$work/dlod.sock
none=DLO_SOCKET=$work/nobody.sock
run "vLLM-Omni's class, learned budget" upstream 11 "" DLO_MODE=off
run "vLLM-Omni's class, fixed share" upstream_v1 8 "" DLO_MODE=off
run "our class in its place" upstream 11 substituted "$live"
run "our class in its place, no daemon" upstream 11 substituted "$none"
run "switched on by its plugin loader" upstream 11 plugged_in "$live"
run "switched on by its plugin loader, no daemon" upstream 11 plugged_in "$none"
run "the fixed share, policy = fixed" upstream_v1 8 plugged_in "$live" DLO_POLICY=fixed
run "the fixed share, policy = fixed, no daemon" upstream_v1 8 plugged_in "$none" DLO_POLICY=fixed
run "mode shadow leaves its class as it was" upstream 11 plugged_in "$live" DLO_MODE=shadow
asked=$("$build/dlo-ctl" events --socket "$work/dlod.sock" | grep -c '^ask ')
echo "the daemon decided $asked boundaries of these tests"
[ "$asked" -gt 20 ] || { echo "FAIL the daemon was asked too little"; status=1; }
exit $status
