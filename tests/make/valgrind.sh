#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes a build folder in which every program of ours is a script that runs it under valgrind, so
# that the tests need not know. Usage: tests/make/valgrind.sh BUILD OUT
set -eu
build=$(cd "$1" && pwd)
rm -rf "$2"
mkdir -p "$2"
out=$(cd "$2" && pwd)

wrap()
{
    mkdir -p "$(dirname "$out/$1")"
    cat >"$out/$1" <<SCRIPT
#!/bin/sh
exec valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \\
    --show-leak-kinds=definite --num-callers=24 "$build/$1" "\$@"
SCRIPT
    chmod +x "$out/$1"
}

for path in "$build"/* "$build"/unit/* "$build"/programs/* "$build"/examples/*; do
    name=${path#"$build"/}
    case $name in
    *.so | *.so.*) continue ;; # libraries are linked below
    esac
    if [ -f "$path" ] && [ -x "$path" ]; then
        wrap "$name"
    fi
done
for name in libdlo-client.so.0 libdlo-client.so libdlo-client.a libdlo-client-cuda.so.0 \
    libdlo-client-cuda.so libdlo-client-cuda.a flags simgpu gen locale; do
    [ ! -e "$build/$name" ] || ln -sfn "$build/$name" "$out/$name"
done
