#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compares our declarations of the CUDA Driver API and of NVML with the vendor's own headers.
# Usage: tests/abi/check.sh [--self-test]   (from the repository root)
#   CC         the compiler, default cc
#   CUDA_HOME  a toolkit to look into first
# Exit status: 0 all that could be compared is equal, 1 a difference, 2 a usage error.
# --self-test proves that the check can fail, by planting wrong rows in a copy of the table.

set -u
CC=${CC:-cc}

# Prints the folder of header $1, or nothing. $2 is a string that only the right file has: there
# are other files of these names (/usr/include/linux/cuda.h is about an Apple controller).
find_header()
{
    for dir in ${CUDA_HOME:+"$CUDA_HOME/include" "$CUDA_HOME"} \
        /usr/local/cuda/include /usr/local/cuda*/include /usr/local/cuda*/targets/*/include \
        /usr/include /usr/include/nvidia /opt/cuda/include; do
        if grep -q "$2" "$dir/$1" 2>/dev/null; then
            printf '%s\n' "$dir"
            return
        fi
    done
}

looked_in()
{
    printf '%s' "${CUDA_HOME:+$CUDA_HOME, }/usr/local/cuda*/include, /usr/include, /opt/cuda/include"
}

# compile SOURCE HEADER_DIR ROOT: ROOT is the folder that holds proto/abi.
compile()
{
    "$CC" -std=gnu11 -Wall -Wextra -fsyntax-only -I"$3" -isystem "$2" "$1"
}

# check NAME MARKER: compares proto/abi/NAME_abi.h with NAME.h.
check()
{
    dir=$(find_header "$1.h" "$2")
    if [ -z "$dir" ]; then
        echo "SKIP check-abi: no $1.h found (looked in $(looked_in)): proto/abi/$1_abi.h NOT checked"
        return 0
    fi
    if compile "tests/abi/$1_check.c" "$dir" .; then
        echo "PASS check-abi: proto/abi/$1_abi.h equals $dir/$1.h"
        return 0
    fi
    echo "FAIL check-abi: proto/abi/$1_abi.h differs from $dir/$1.h"
    return 1
}

# plant NAME MARKER WHAT SED: the check must fail on a table changed by the sed expression.
plant()
{
    dir=$(find_header "$1.h" "$2")
    if [ -z "$dir" ]; then
        echo "SKIP check-abi self-test: no $1.h found: $3 not tried"
        return 0
    fi
    mkdir -p "$scratch/proto/abi"
    sed "$4" "proto/abi/$1_abi.h" >"$scratch/proto/abi/$1_abi.h"
    if cmp -s "proto/abi/$1_abi.h" "$scratch/proto/abi/$1_abi.h"; then
        echo "FAIL check-abi self-test: the edit for $3 changed nothing"
        return 1
    fi
    if compile "tests/abi/$1_check.c" "$dir" "$scratch" 2>"$scratch/log"; then
        echo "FAIL check-abi self-test: $3 was not noticed"
        return 1
    fi
    if ! grep -qi 'static.assert' "$scratch/log"; then
        echo "FAIL check-abi self-test: $3 broke the build instead of an assertion:"
        cat "$scratch/log"
        return 1
    fi
    echo "PASS check-abi self-test: $3 is noticed"
}

cuda_marker=cuMemGetInfo_v2
nvml_marker=nvmlDeviceGetMemoryInfo_v2

case "${1:-}" in
'')
    status=0
    check cuda $cuda_marker || status=1
    check nvml $nvml_marker || status=1
    exit $status
    ;;
--self-test)
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/check-abi.XXXXXX") || exit 1
    trap 'rm -rf "$scratch"' EXIT
    status=0
    plant cuda $cuda_marker 'a wrong prototype' \
        's/(size_t \*, size_t \*)/(unsigned int *, unsigned int *)/' || status=1
    plant cuda $cuda_marker 'an unsuffixed symbol' 's/cuMemGetInfo_v2/cuMemGetInfo/' || status=1
    plant cuda $cuda_marker 'a wrong number' \
        's/X(MEMPOOL_ATTR_USED_MEM_HIGH, 8)/X(MEMPOOL_ATTR_USED_MEM_HIGH, 9)/' || status=1
    plant cuda $cuda_marker 'a wrong struct' 's/reserved\[54\]/reserved[64]/' || status=1
    plant nvml $nvml_marker 'a wrong prototype' \
        's/(struct nvmlDevice_st \*, struct nvmlMemory_st \*)/(struct nvmlDevice_st *, void *)/' ||
        status=1
    plant nvml $nvml_marker 'a wrong version word' 's/2u << 24/1u << 24/' || status=1
    exit $status
    ;;
*)
    echo "usage: tests/abi/check.sh [--self-test]" >&2
    exit 2
    ;;
esac
