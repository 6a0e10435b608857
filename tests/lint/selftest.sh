#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves that lint can fail: plants mistakes in a copy of the tree and expects the fact to say so.
# Usage: tests/lint/selftest.sh
set -u
cd "$(dirname "$0")/../.." || exit 1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$copy" || exit 1
cd "$copy" || exit 1
status=0

# plant FACT WHAT FILE TEXT [WORDS]: with TEXT at the end of FILE, FACT fails and names FILE (or WORDS).
plant()
{
    local out
    [ -f "$3" ] && cp "$3" "$copy/.kept"
    printf '%s\n' "$4" >>"$3"
    out=$(DLO_BUILD=build tests/lint/run.sh "$1")
    if grep -q "^not ok - $1 " <<<"$out" && grep -qF "${5:-$3}" <<<"$out"; then
        echo "ok - lint notices $2"
    else
        echo "not ok - lint notices $2"
        sed 's/^/    /' <<<"$out"
        status=1
    fi
    if [ -f "$copy/.kept" ]; then mv "$copy/.kept" "$3"; else rm "$3"; fi
}

plant layers 'an upward include from base' proto/base/error.c '#include "proto/wire/wire.h"'
plant layers 'an upward include from policy' daemon/policy/policy.c '#include "daemon/config.h"'
plant layers 'a client that includes policy' client/lib/client.c '#include "daemon/policy/policy.h"'
plant layers 'a daemon that includes the client' daemon/daemon.c '#include <dlo/dlo.h>'
plant layers 'an include that does not name its folder' daemon/server.c '#include "server.h"'
plant purity 'a malloc in policy' daemon/policy/ledger.c \
    '#include <stdlib.h>
void *ledger_planted(size_t n);
void *ledger_planted(size_t n)
{
    return malloc(n);
}' 'daemon/policy calls malloc'
plant purity 'a clock in policy' daemon/policy/policy.c \
    '#include <time.h>
long policy_planted(void);
long policy_planted(void)
{
    return (long)time(0);
}' 'daemon/policy calls time'
plant floats 'a float in wire' proto/wire/arena.c 'static float planted;'
plant floats 'a double in the server' daemon/server.c 'static double planted;'
plant floats 'a product outside policy_product' daemon/policy/ledger.c \
    'unsigned long planted(unsigned long b)
{
    return (unsigned long)((double)b * 0.5);
}'
plant uv '<uv.h> in a session' daemon/session.c '#include <uv.h>'
plant protobuf 'a protobuf-c type in the daemon' daemon/session.c 'struct _ProtobufCMessage;'
plant spdx 'a source without SPDX' daemon/planted.c 'int planted;'
plant config-docs 'a key without docs' daemon/config.def 'KEY(planted, COUNT, "1", RELOAD, "x")' planted
plant guide-docs 'a variable without a row' client/python/dlo/cache.py 'import os; os.environ.get("DLO_PLANTED")' DLO_PLANTED
plant paths 'a path of this machine' docs/config.md "/wo""rk/main/x"
plant alone 'a header that needs another' daemon/planted.h 'void planted(uint64_t);'
plant pycompile 'a Python file that does not compile' tests/run.py 'def' SyntaxError
exit $status
