#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds a German locale into DIR, makes sure that its decimal point is a comma, and runs COMMAND
# under it. Usage: tests/locale.sh DIR [COMMAND [ARGUMENT]...]
set -eu
dir=${1:?usage: tests/locale.sh DIR [COMMAND...]}
shift
if [ ! -d "$dir/de_DE.UTF-8" ]; then
    mkdir -p "$dir"
    localedef -i de_DE -f UTF-8 "$dir/de_DE.UTF-8.new"
    mv "$dir/de_DE.UTF-8.new" "$dir/de_DE.UTF-8"
fi
LOCPATH=$(cd "$dir" && pwd)
point=$(LOCPATH=$LOCPATH LC_ALL=de_DE.UTF-8 locale decimal_point)
if [ "$point" != , ]; then
    echo "tests/locale.sh: the decimal point of de_DE.UTF-8 in $dir is '$point'" >&2
    exit 1
fi
[ $# -gt 0 ] || exit 0
export LOCPATH LC_ALL=de_DE.UTF-8
exec "$@"
