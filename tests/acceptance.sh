#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs tests/acceptance/*.sh, or the one that is named. Each prints its own lines and exits 0 when
# everything it shows is true. Usage: tests/acceptance.sh [NAME]
set -u
status=0
found=no
for script in tests/acceptance/${1:-*}.sh; do
    [ -f "$script" ] || continue
    found=yes
    echo "== $script"
    bash "$script" || status=1
done
if [ $found = no ]; then
    echo "there is no tests/acceptance/${1:-*}.sh" >&2
    exit 1
fi
exit $status
