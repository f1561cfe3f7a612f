#!/usr/bin/env bash
# reproducible.sh PACKAGE: builds the package of this tree again in a directory with a longer name, without the compiler's
# cache and with other values for the time zone, the language and the permissions of new files. It must be equal, byte by byte.
set -euo pipefail
package=$(readlink -f "$1")
source=$(readlink -f "$(dirname "$0")/../..")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

copy="$directory/another directory/of the sources"
mkdir -p "$copy"
(
    umask 077
    tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" --no-same-permissions -xf -
    unset SOURCE_DATE_EPOCH
    export CCACHE_DISABLE=1 TZ=Asia/Kolkata LC_ALL=C.UTF-8
    cd "$copy"
    ./dev package
) >"$directory/output" 2>&1 || {
    tail -20 "$directory/output"
    exit 1
}
again=("$copy"/build/package/*.deb)
cmp "$package" "${again[0]}" || {
    mkdir "$directory/a" "$directory/b"
    dpkg-deb --raw-extract "$package" "$directory/a"
    dpkg-deb --raw-extract "${again[0]}" "$directory/b"
    diff -rq "$directory/a" "$directory/b" || true
    echo "the two packages differ"
    exit 1
}
echo "two builds of ${package##*/} are equal: $(sha256sum <"$package")"
