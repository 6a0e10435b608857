#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Facts about the source that a machine can check, one line each: "ok - FACT", "not ok - FACT" with
# what is wrong below it, or "ok - FACT # SKIP why". Usage: tests/lint/run.sh [FACT...]
#   DLO_BUILD  the build folder (its libraries' symbols are looked at), default build
# Runs from the root of the tree it is in; needs git or a tree without build products.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${DLO_BUILD:-build}
CC=${CC:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

all_files()
{
    if git rev-parse --show-toplevel 2>/dev/null | grep -qxF "$(pwd -P)"; then
        git ls-files -co --exclude-standard
    else
        find . \( -name build -o -name .git \) -prune -o -type f -print | sed 's|^\./||'
    fi | while read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done | LC_ALL=C sort
}
all_files >"$work/files"
of() { grep -E "$1" "$work/files"; }
mapfile -t c_files < <(of '\.[ch]$')
mapfile -t headers < <(of '\.h$')
mapfile -t scripts < <(of '\.sh$|^\.ci/run$')
mapfile -t python < <(of '\.py$')
product() { printf '%s\n' "${c_files[@]}" | grep -E '^(daemon|proto|client)/'; }

status=0
wanted=" $* "
# fact NAME COMMAND...: true when the command prints nothing and exits 0. "SKIP why" skips.
fact()
{
    local name=$1 out rc
    shift
    [ "$wanted" = "  " ] || [[ $wanted == *" ${name%% *} "* ]] || return 0
    out=$("$@" 2>&1)
    rc=$?
    if [[ $out == SKIP* ]]; then
        echo "ok - $name # $out"
    elif [ $rc -eq 0 ] && [ -z "$out" ]; then
        echo "ok - $name"
    else
        echo "not ok - $name"
        head -n 40 <<<"${out:-exit status $rc}" | sed 's/^/    /'
        status=1
    fi
}

layers() { awk -f tests/lint/layers.awk tests/lint/layers.txt "${c_files[@]}"; }

# Lines of product files that match, but for the files of the second pattern.
only_in() { product | grep -vE "$2" | xargs grep -nE -- "$1"; true; }
uv() { only_in '#[ \t]*include[ \t]*<uv\.h>' '^daemon/(daemon|server|sampler)\.c$'; }
protobuf() { only_in '<protobuf-c|ProtobufC|pb-c\.h|\bDlo__' '^proto/wire/'; }

# Fractions are doubles where they are read, printed and multiplied (R11); nothing else is one.
floats()
{
    local fractions='^(daemon/policy/policy|daemon/config(_types)?|proto/base/(parse|answer)|proto/wire/(wire|(de|en)code_request|decode_reply|encode_reply)|proto/trace/[a-z]+|client/include/dlo/dlo|client/lib/[a-z_]+|client/ctl/[a-z_]+)\.[ch]$'
    product >"$work/product"
    code_only() { sed -E 's|/\*.*\*/||; s|"([^"\\]\|\\.)*"||g; /^ *(\/\*\|\*)/d' "$1"; }
    while read -r f; do
        code_only "$f" | grep -wE 'float|long double' | sed "s|^|$f: |"
        [[ $f =~ $fractions ]] || code_only "$f" | grep -w double | sed "s|^|$f: |"
    done <"$work/product"
    # In policy, only the three products of docs/policy.md multiply one, in one function.
    for f in daemon/policy/*.c; do
        awk '/^[a-z].*\(/ { in_product = /policy_product/ } /\(double\)/ && !in_product {
             print FILENAME ":" FNR ": a double outside policy_product: " $0 }' "$f"
    done
}

# What the policy calls, beyond itself and proto/base, may only move memory.
purity()
{
    local f o
    mkdir -p "$work/pure" "$work/base"
    for f in daemon/policy/*.c proto/base/*.c; do
        o=$work/$([[ $f == daemon/* ]] && echo pure || echo base)/$(basename "$f" .c).o
        $CC -std=gnu11 -D_GNU_SOURCE -O2 -ffp-contract=off -fstack-protector-strong -I. -c "$f" -o "$o" || return
    done
    nm -g --defined-only -P "$work"/pure/*.o "$work"/base/*.o | awk 'NF > 1 { print $1 }' >"$work/own"
    nm -u -P "$work"/pure/*.o | awk 'NF > 1 { print $1 }' | sort -u | grep -vxF -f "$work/own" |
        grep -vxE 'mem(set|cpy|move|cmp)|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_' |
        sed 's/^/daemon\/policy calls /'
    # What it calls in proto/base must be as pure itself.
    nm -u -P "$work"/pure/*.o | awk 'NF > 1 { print $1 }' | sort -u >"$work/called"
    for o in "$work"/base/*.o; do
        nm -g --defined-only -P "$o" | awk '{ print $1 }' | grep -qxF -f "$work/called" || continue
        nm -u -P "$o" | awk '$1 ~ /^(m|c|re)alloc$|^free$|clock|time$|printf|^open|^read$|^write$/ { print $1 }' |
            sed "s|^|daemon/policy uses proto/base/$(basename "$o" .o).c, which calls |"
    done
}

# What a library exports, and that each function of its public header is there.
exports_of()
{
    local so=$build/$1.so.0 header=$2 pattern=$3
    nm -D --defined-only -P "$so" | awk -v p="^($pattern|DLO_[A-Z]*_?0)" '$1 !~ p { print "'"$1"'.so: " $1 }'
    nm -g --defined-only -P "$build/$1.a" | awk -v p="^($pattern|__asan_|__odr_asan)" 'NF > 1 && $1 !~ p { print "'"$1"'.a: " $1 }'
    sed -nE 's/^DLO_API [^(]*[ *](dlo_[a-z_0-9]+)\(.*/\1/p' "$header" | LC_ALL=C sort -u >"$work/declared"
    [ -s "$work/declared" ] || echo "$header declares nothing that this check sees"
    nm -D --defined-only -P "$so" | sed -nE 's/^(dlo_[a-z_0-9]+).*/\1/p' | LC_ALL=C sort -u >"$work/exported"
    LC_ALL=C comm -23 "$work/declared" "$work/exported" | sed 's/^/declared, not exported: /'
    LC_ALL=C comm -13 "$work/declared" "$work/exported" | sed 's/^/exported, not declared: /'
}
exports()
{
    [ -e "$build/libdlo-client.so.0" ] || { echo "SKIP no $build/libdlo-client.so.0 (make first)"; return; }
    exports_of libdlo-client client/include/dlo/dlo.h 'dlo_[a-z]'
    exports_of libdlo-client-cuda client/include/dlo/dlo_cuda.h 'dlo_(cuda|cache|stager)_[a-z]'
}

alone()
{
    local flags=(-fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror -I. -Iclient/include -I"$build/gen" -x)
    local h
    for h in "${headers[@]}"; do
        [[ $h == tests/fuzz/* ]] && continue
        if ! echo "#include \"$h\"" | $CC -std=gnu11 -D_GNU_SOURCE "${flags[@]}" c - 2>"$work/alone"; then
            echo "$h:"; head -n 5 "$work/alone"
        fi
    done
}
public_c()
{
    local h
    for h in client/include/dlo/*.h; do
        echo "#include <dlo/$(basename "$h")>" | $CC -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iclient/include -x c -
    done
}
public_cxx()
{
    local h
    command -v g++ >/dev/null || { echo "SKIP no g++ here"; return; }
    for h in client/include/dlo/*.h; do
        echo "#include <dlo/$(basename "$h")>" | g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iclient/include -x c++ -
    done
}

format()
{
    command -v clang-format >/dev/null || { echo "SKIP no clang-format here"; return; }
    clang-format --version | grep -q 'version 14' || { echo "SKIP clang-format here is not 14"; return; }
    clang-format --dry-run "${c_files[@]}" 2>&1 | grep -E 'warning|error' | sort -u -t: -k1,2 | sed 's/ \[-W.*//'
    true
}

spdx()
{
    of '\.([chsS]|def|proto|py|sh|mk|awk|map)$|(^|/)(Makefile|\.clang-(format|tidy))$|^\.ci/run$' |
        while read -r f; do
            head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$f: no SPDX line in its first 3"
        done
}

# A rule that docs/policy.md marks as built stands in code and in a vector or test.
rules() { python3 tests/lint/rules.py; }
config_docs() { python3 tests/lint/config_docs.py; }
guide_docs() { python3 tests/lint/guide_docs.py; }

# Not the paths of the machine somebody works on. (Written so that this line is not one.)
paths()
{
    xargs -d '\n' grep -nIF -e '/wo''rk/' -e '/ro''ot/' -- <"$work/files"
    true
}

lengths()
{
    local f n
    while read -r f; do
        n=$(wc -l <"$f")
        if [ "$n" -gt 700 ]; then
            echo "$f: $n lines, more than 700"
        elif [ "$n" -gt 500 ] && ! grep -q "^$f " tests/lint/long-files.txt; then
            echo "$f: $n lines, more than 500 (split it, or say why in tests/lint/long-files.txt)"
        fi
    done < <(of '\.([ch]|py|sh|mk)$|^Makefile$')
}

shell()
{
    command -v shellcheck >/dev/null || { echo "SKIP no shellcheck here"; return; }
    shellcheck -S warning -f gcc "${scripts[@]}"
}
pycompile()
{
    [ ${#python[@]} -eq 0 ] || python3 - "${python[@]}" <<'PY'
import sys
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as f:
        compile(f.read(), path, "exec")
PY
}

# The slow ones first, beside the others.
fact 'alone each header compiles by itself' alone >"$work/alone.out" &
fact 'format clang-format would change nothing' format >"$work/format.out" &
fact 'layers includes follow tests/lint/layers.txt' layers
fact 'uv <uv.h> only in daemon.c, server.c, sampler.c' uv
fact 'protobuf protobuf-c types only in proto/wire' protobuf
fact 'floats no floating point but fractions and their products' floats
fact 'purity daemon/policy calls nothing outside but mem*' purity
fact 'exports libraries export dlo_* alone' exports
fact 'public-c public headers are C99' public_c
fact 'public-cxx public headers are C++11' public_cxx
fact 'spdx each source has its SPDX line' spdx
fact 'rules built rules are in code and in a vector or test' rules
fact 'config-docs docs/config.md is that of daemon/config.def' config_docs
fact 'guide-docs docs/user-guide.md has the variables that are read' guide_docs
fact 'paths no path of this machine' paths
fact 'lengths files are not too long' lengths
fact 'shell shellcheck finds nothing' shell
fact 'pycompile Python files compile' pycompile
wait
cat "$work/alone.out" "$work/format.out"
grep -q '^not ok' "$work/alone.out" "$work/format.out" && status=1
exit $status
