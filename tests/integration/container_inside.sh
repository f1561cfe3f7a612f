#!/usr/bin/env bash
# Runs in its own namespaces, with the file system, user and limits of compose.yaml.
# container_inside.sh DIRECTORY, with the programs, their configuration and www/.
set -euo pipefail
directory=$1
mount --make-rprivate /
mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -m 700 /run/webserverd
chown 10001:10001 /run/webserverd
mount --bind "$directory" "$directory"
mount -o remount,ro,bind "$directory"
mount -o remount,ro,bind /
user=(setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all
    env -i XDG_RUNTIME_DIR=/run "PATH=$directory:$PATH")
# The server is process 1, as in a container.
unshare --mount --pid --fork --mount-proc --kill-child "${user[@]}" webserverd -f "$directory/webserver.ini" \
    -o "server.root=$directory/www" -o server.listen=127.0.0.1:0 -o log.format=json >/run/access.json &
server=$!
process_1() {
    tr -d ' ' <"/proc/$server/task/$server/children"
}
as_user() {
    nsenter --target "$(process_1)" --mount --pid "${user[@]}" "$@"
}
for _ in $(seq 300); do
    as_user wsctl ping >/dev/null 2>&1 && break
    kill -0 "$server"
    sleep 0.1
done
as_user wsctl check | grep 'answers with status 200'
if as_user wsctl upgrade 2>/run/refusal; then
    exit 1
fi
grep 'the server is process 1' /run/refusal
kill -USR2 "$(process_1)"
as_user wsctl ping
address=$(as_user wsctl --json status | sed -n "s/.*\"listening\":\[\"\([^\"]*\).*/\1/p")
as_user wsload --engine raw --connect-timeout 60s -n 1000 "http://$address/" >/dev/null
as_user wsctl stop --no-wait
wait "$server"
[ "$(grep -c '^{.*}$' /run/access.json)" -eq "$(wc -l </run/access.json)" ] # JSON from the first line on
[ "$(wc -l </run/access.json)" -gt 1000 ]
[ -z "$(find /run/webserverd /dev/shm -name 'webserverd.*')" ]
