#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make demo`: a real dlod and real worker processes on a simulated GPU. Run from the repository
# root. DLO_BUILD or BUILD: where it was built (build). CAP: another cap_fraction (0.25). PACE: milliseconds
# before each component, to be watched (100).
set -euo pipefail
export LC_ALL=C

build=${DLO_BUILD:-${BUILD:-build}}
cap=${CAP:-0.25}
pace=${PACE:-100}
gpu_bytes=150110000000 # 140 GiB class

for program in dlod dlo-ctl programs/h3_worker simgpu/simgpu simgpu/libcuda.so.1; do
    if [ ! -e "$build/$program" ]; then
        echo "demo: $build/$program is missing: type \`make demo\`" >&2
        exit 1
    fi
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/dlo-demo.XXXXXX") # mode 0700: a client trusts a socket in it
socket=$dir/dlod.sock
journal=$dir/journal
ended=""   # set when all went well
children=() # whom to end if it did not
declare -A done_lines # worker -> its last line

cleanup() {
    for pid in "${children[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    if [ -z "$ended" ] && [ -s "$dir/dlod.log" ]; then
        echo "demo: failed; the last lines of dlod's log:" >&2
        tail -n 20 "$dir/dlod.log" >&2
    fi
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

on_gpu() { # becomes a program on the simulated GPU; in the background only, so that $! is its pid
    LD_LIBRARY_PATH="$build/simgpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$@"
}

ctl() {
    local verb=$1
    shift
    "$build/dlo-ctl" "$verb" --socket "$socket" "$@"
}

# A number of the session with that name, as `dlo-ctl status --json` tells it.
status_number() { # NAME KEY, with the JSON in $status
    awk -v name="\"$1\"," -v key="\"$2\":" '
        $1 == "\"name\":" { here = ($2 == name) }
        here && $1 == key { sub(/,$/, "", $2); print $2; found = 1; exit }
        END { exit !found }' <<<"$status"
}

gb() { # bytes in units of 1e9, cut as dlo-ctl does
    if [ "$1" = - ]; then
        printf '%s' -
    else
        printf '%d.%02d' $(($1 / 1000000000)) $(($1 % 1000000000 / 10000000))
    fi
}

value() { # KEY of the line in $line
    local rest=" $line"
    rest=${rest##* "$1"=}
    printf '%s' "${rest%% *}"
}

print_costs() { # LABEL WORKER
    line=${done_lines[$2]}
    printf '    %-8s %4d releases, %8s re-allocated while serving\n' "$1" "$(value releases_serving)" \
        "$(gb "$(value mapped_serving_bytes)")"
}

print_boundary() {
    printf '%-7s %-8s %-13s %9s %8s %8s  %-8s %-20s %s\n' "$(value name)" "$(value request)" \
        "$(value component)" "$(gb "$(value reserved)")" "$(gb "$(value cached)")" \
        "$(gb "$(value budget)")" "$(value decision)" "$(value reason)" "$(value by)"
}

start_daemon() {
    on_gpu "$build/dlod" --gpu 0 --telemetry auto --socket "$socket" --journal-file "$journal" \
        --set "cap_fraction=$cap" 2>"$dir/dlod.log" &
    daemon=$!
    children+=("$daemon")
    # until it answers; each round waits for dlo-ctl's own deadline or for the daemon's end
    for _ in $(seq 200); do
        if ctl status --json >"$dir/status" 2>/dev/null; then
            return 0
        fi
        if ! kill -0 "$daemon" 2>/dev/null; then
            return 1
        fi
        sleep 0.05
    done
    return 1
}

# Runs workers at the same time and shows what they report, line by line. When each has come to its
# end, and all still are registered, it keeps the status in $status and lets them go.
run_workers() { # COUNT, then one argument a worker: its options
    local count=$1 running=$1 workers=() options pid
    shift
    rm -f "$dir/lines" "$dir/go"
    mkfifo "$dir/lines" "$dir/go"
    exec 3<>"$dir/go"
    for options in "$@"; do
        # shellcheck disable=SC2086  # options are words
        on_gpu "$build/programs/h3_worker" --socket "$socket" --hold $options \
            <"$dir/go" 3>&- >"$dir/lines" &
        workers+=($!)
        children+=($!)
    done
    while IFS= read -r line; do
        case $line in
        boundary*)
            if [ -n "$table" ]; then
                print_boundary
            fi
            ;;
        done*)
            done_lines[$(value name)]=$line
            running=$((running - 1))
            if [ "$running" -eq 0 ]; then
                status=$(ctl status --json)
                if [ "$count" -gt 1 ]; then
                    printf '\n$ dlo-ctl status\n'
                    ctl status
                fi
                exec 3>&-
            fi
            ;;
        esac
    done <"$dir/lines"
    for pid in "${workers[@]}"; do
        wait "$pid"
    done
}

cat <<END
dlod decides, at each boundary between two components of a model, whether a worker gives its unused
GPU memory back. Here it does so for two workers.

The GPU is SIMULATED: $gpu_bytes bytes, shared by all processes of this demo, with nothing
copied to it and nothing computed. dlod, its probe, the workers, their allocations, their caching
pools and the socket between them are real processes, calls and files.

h3 has the shape of MiniMax-H3 at 1344x768. Published: 12.945e9 bytes staged, 17.95, 17.93 and
19.49e9 unused at its boundaries, and the outcome: two releases in the warm-up, none afterwards.
Ours: the split of the staged bytes, the first step (12.9), what stays resident, and all of small.

END
export SIMGPU=$dir/gpu
"$build/simgpu/simgpu" create --total "$gpu_bytes"
if ! start_daemon; then
    echo "demo: dlod did not start" >&2
    exit 1
fi

printf 'Two workers, one warm-up request and three served ones (units of 1e9 bytes, cap_fraction %s):\n\n' \
    "$cap"
printf '%-7s %-8s %-13s %9s %8s %8s  %-8s %-20s %s\n' \
    WORKER REQUEST COMPONENT RESERVED UNUSED BUDGET ANSWER WHY BY
table=yes
status=""
run_workers 2 "--shape h3 --step-pause-ms $pace" "--shape small --step-pause-ms $pace"
in_warm_up=$(status_number h3 cold_start_releases)
while_serving=$(status_number h3 serving_releases)

# what the same worker pays if it always releases: run, not computed
table=""
run_workers 1 "--shape h3 --name h3-always --policy always"
printf '\nThe three served requests of h3, in units of 1e9 bytes:\n'
print_costs learned h3
print_costs always h3-always

kill -TERM "$daemon"
wait "$daemon"
printf '\n$ dlo-ctl replay --check journal\n'
"$build/dlo-ctl" replay --check "$journal"

printf '\nreleases in warm-up: %s\nreleases while serving: %s\n' "$in_warm_up" "$while_serving"
ended=yes
