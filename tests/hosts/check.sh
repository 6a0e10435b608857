#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Our plugin and wrapper against RELEASED packages from the Python package index: vllm-omni without its
# dependencies, torch on the CPU, diffusers. In a throw-away virtual environment; needs the network and
# several gigabytes, and is no part of .ci/run. pip's own settings (PIP_INDEX_URL, ...) choose the index.
#   DLO_BUILD   the build folder, default build
#   DLO_HOSTS   where the environment is made, default build/hosts; it is kept for the next run
# Prints the versions and one line a check: PASS or FAIL; SKIP where the index cannot be reached.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "${DLO_BUILD:-$root/build}" && pwd)
venv=${DLO_HOSTS:-$build/hosts}
log=$build/hosts.log
base=python3
[ -x /usr/bin/python3 ] && base=/usr/bin/python3

if ! "$base" -m venv "$venv" >"$log" 2>&1; then
    echo "SKIP check-hosts: $base cannot make a virtual environment (see $log; Debian: python3-venv)"
    exit 0
fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
echo "installing into $venv (this can take minutes)"
if ! "${pip[@]}" install --upgrade --no-deps vllm-omni >>"$log" 2>&1; then
    echo "SKIP check-hosts: vllm-omni cannot be had from the package index (see $log)"
    exit 0
fi
if ! "${pip[@]}" install --upgrade torch numpy diffusers transformers accelerate >>"$log" 2>&1; then
    echo "SKIP check-hosts: torch or diffusers cannot be had from the package index (see $log)"
    exit 0
fi
"${pip[@]}" install --no-index --no-deps --force-reinstall "$root/client/python" >>"$log" 2>&1 ||
    { echo "FAIL check-hosts: our package cannot be installed (see $log)"; exit 1; }
"$venv/bin/python" - <<'PY'
import importlib.metadata as m, platform
names = ("vllm-omni", "torch", "diffusers", "accelerate", "dlo-client")
print("python", platform.python_version(), *(f"{n} {m.version(n)}" for n in names))
PY

work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; wait; rm -rf "$work"' EXIT
"$build/dlod" --telemetry worker --socket "$work/dlod.sock" 2>"$work/dlod.log" &
daemon=$!
for _ in $(seq 100); do "$build/dlo-ctl" status --socket "$work/dlod.sock" >/dev/null 2>&1 && break; read -rt 0.1 <> <(:); done

status=0
# run NAME SCRIPT [VARIABLE=VALUE...]
run()
{
    local name=$1 script=$2 out
    shift 2
    if out=$(env DLO_LIBRARY="$build/libdlo-client.so.0" DLO_SOCKET="$work/dlod.sock" "$@" \
        PYTHONPATH="$here" "$venv/bin/python" "$here/$script" 2>&1); then
        echo "PASS $name: $(tail -n 1 <<<"$out")"
    else
        echo "FAIL $name"
        tail -n 30 <<<"$out" | sed 's/^/    /'
        status=1
    fi
}
run "vLLM-Omni's plugin loader, class and stager" omni.py
run "the same without a daemon" omni.py DLO_SOCKET="$work/nobody.sock"
run "the same in shadow" omni.py DLO_MODE=shadow
run "the same with policy = fixed" omni.py DLO_POLICY=fixed
run "torch's empty_cache, wrapped" wrapped.py
run "diffusers' own offload, wrapped" offload.py
asked=$("$build/dlo-ctl" events --socket "$work/dlod.sock" | grep -c '^ask ')
if [ "$asked" -gt 5 ]; then
    echo "PASS the daemon decided $asked boundaries of these programs"
else
    echo "FAIL the daemon decided $asked boundaries of these programs"
    status=1
fi
exit $status
