#!/usr/bin/env bash
# Runs the logrotate snippet of etc/ under load: no line is lost or repeated.
# logrotate.sh BIN_DIRECTORY SNIPPET
set -euo pipefail
bin=$1 snippet=$2

command -v logrotate >/dev/null || {
    echo "logrotate is not installed: skipped"
    exit 77
}

directory=$(mktemp -d)
server='' load=''
finish() {
    [ -z "$load" ] || kill "$load" 2>/dev/null || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait
    rm -rf "$directory"
}
trap finish EXIT

mkdir "$directory/www" "$directory/log"
chmod 755 "$directory" # the workers may run as another user
echo text >"$directory/www/index.html"
name=logrotate-$$
sed -e "s|/var/log/webserverd|$directory/log|" -e "s|wsctl |\"$bin/wsctl\" -s $directory/$name.sock |" \
    -e 's|compress|nocompress|' -e "s|daily|su $(id -un) $(id -gn)|" "$snippet" >"$directory/conf"
chmod 644 "$directory/conf"

"$bin/webserverd" -o "server.name=$name" -o "server.run_dir=$directory" -o "server.root=$directory/www" \
    -o server.listen=127.0.0.1:0 -o "log.access=$directory/log/access.log" -o "log.error=$directory/log/error.log" \
    -o log.wait_timeout=60s &
server=$!
until "$bin/wsctl" -s "$directory/$name.sock" ping >/dev/null 2>&1; do
    kill -0 "$server"
    sleep 0.05
done
address=$("$bin/wsctl" -s "$directory/$name.sock" --json status | sed -n 's/.*"listening":\["\([^"]*\).*/\1/p')

# The load lasts until all rotations are done, and then until its last request is answered.
"$bin/wsload" --engine raw -r 5000 -c 20 -d 1h --grace 60s --connect-timeout 60s --quiet --json "http://$address/" >"$directory/load" &
load=$!
for _ in 1 2 3; do
    until [ -s "$directory/log/access.log" ]; do
        kill -0 "$load" # the load must still run
        sleep 0.01
    done
    logrotate --force --state "$directory/state" "$directory/conf"
done
until [ -s "$directory/log/access.log" ]; do
    sleep 0.01
done
kill -INT "$load"
wait "$load" || [ $? -eq 130 ] # interrupted
load=''
requests=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["requests"]["answered"])' <"$directory/load")
kill "$server"
wait "$server"
server=''

lines=$(cat "$directory"/log/access.log* | wc -l)
files=$(find "$directory/log" -name 'access.log*' | wc -l)
echo "$requests requests, $lines lines in $files files"
[ "$lines" -eq "$requests" ] && [ "$files" -eq 4 ]
