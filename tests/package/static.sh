#!/usr/bin/env bash
# static.sh BIN_DIRECTORY: the static programs run in a directory that contains nothing else but a page, /proc and /dev.
# Needs root and curl. Leaves nothing behind.
set -euo pipefail
bin=$(readlink -f "$1")

[ "$(id -u)" -eq 0 ] || {
    echo "static: not root: skipping the run"
    exit
}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir "$directory"/{site,proc,dev,run}
cp "$bin"/{webserverd,wsctl,wsconsole} "$directory"
echo "a page" >"$directory/site/index.html"
chmod -R a+rX "$directory"
chown 65534 "$directory/run"
cd "$directory"
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child bash -euc '
    inside() {
        chroot --userspec=65534:65534 . "$@"
    }
    mount -t proc proc proc
    mount --bind /dev dev
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    inside /webserverd -o server.name=static -o server.root=/site -o server.listen=unix:/run/web -o server.run_dir=/run -o log.access=- >&2 &
    for ((tries = 0; tries < 600; tries++)); do
        ! inside /wsctl -s /run/static.sock ping 2>/dev/null || break
        sleep 0.1
    done
    [ "$(curl -sS --max-time 60 --unix-socket run/web http://localhost/)" = "a page" ]
    inside /wsconsole -s /run/static.sock -n static --once overview | grep -q "1 total"
    inside /wsctl -s /run/static.sock stop
    wait' || {
    echo "static: the server does not serve in an empty directory" >&2
    exit 1
}
echo "static: the server serves in an empty directory"
