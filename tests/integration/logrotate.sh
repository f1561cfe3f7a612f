#!/usr/bin/env bash
# Runs the logrotate snippet of etc/ under load: no line is lost or repeated.
# logrotate.sh BIN_DIRECTORY SNIPPET
set -euo pipefail
bin=$1 snippet=$2
requests=100000

command -v logrotate >/dev/null || {
    echo "logrotate is not installed: skipped"
    exit 77
}

folder=$(mktemp -d)
server='' load=''
finish() {
    [ -z "$load" ] || kill "$load" 2>/dev/null || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap finish EXIT

mkdir "$folder/www" "$folder/log"
chmod 755 "$folder" # the workers may run as another user
echo text >"$folder/www/index.html"
name=logrotate-$$
sed -e "s|/var/log/webserverd|$folder/log|" -e "s|wsctl |$bin/wsctl -s $folder/$name.sock |" \
    -e 's|compress|nocompress|' -e "s|daily|su $(id -un) $(id -gn)|" "$snippet" >"$folder/conf"
chmod 644 "$folder/conf"

"$bin/webserverd" -o "server.name=$name" -o "server.run_dir=$folder" -o "server.root=$folder/www" \
    -o server.listen=127.0.0.1:0 -o "log.access=$folder/log/access.log" -o "log.error=$folder/log/error.log" &
server=$!
until "$bin/wsctl" -s "$folder/$name.sock" ping >/dev/null 2>&1; do
    kill -0 "$server"
    sleep 0.05
done
address=$("$bin/wsctl" -s "$folder/$name.sock" --json status | sed -n 's/.*"listening":\["\([^"]*\).*/\1/p')

"$bin/wsload" -c 20 -n "$requests" "http://$address/" >"$folder/load" &
load=$!
for _ in 1 2 3; do
    until [ -s "$folder/log/access.log" ]; do
        kill -0 "$load" # the load must still run
        sleep 0.01
    done
    logrotate --force --state "$folder/state" "$folder/conf"
done
wait "$load"
load=''
kill "$server"
wait "$server"
server=''

lines=$(cat "$folder"/log/access.log* | wc -l)
files=$(find "$folder/log" -name 'access.log*' | wc -l)
echo "$requests requests, $lines lines in $files files"
[ "$lines" -eq "$requests" ] && [ "$files" -eq 4 ]
