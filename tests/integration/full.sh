#!/usr/bin/env bash
# A full disk under the access log, and a full /dev/shm, on real file systems.
# full.sh BIN_DIRECTORY; needs root, otherwise skipped. Runs itself again in a mount namespace.
set -euo pipefail
bin=$1

if [ "${2:-}" != inside ]; then
    if [ "$(id -u)" -ne 0 ] || ! unshare --mount true 2>/dev/null; then
        echo "not root, or no namespaces: skipped"
        exit 77
    fi
    exec unshare --mount "$0" "$bin" inside
fi

fail() {
    echo "full: $*" >&2
    exit 1
}

directory=$(mktemp -d)
name=full-$$
requests=4000 # more than the disk and the rings of two threads hold
few=1500      # more than the disk holds
server=''
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait
    umount "$directory/log" 2>/dev/null || true
    rm -rf "$directory"
}
trap finish EXIT

mount --make-rprivate /
chmod 755 "$directory"
mkdir "$directory/www" "$directory/log"
echo text >"$directory/www/index.html"
mount -t tmpfs -o size=64k tmpfs "$directory/log"

ctl() {
    "$bin/wsctl" -s "$directory/$name.sock" "$@"
}

# start OPTION...: starts the server and waits until it answers.
start() {
    local options=() option

    for option in "$@"; do
        options+=(-o "$option")
    done
    "$bin/webserverd" -o "server.name=$name" -o "server.run_dir=$directory" -o "server.root=$directory/www" \
        -o server.listen=127.0.0.1:0 -o "log.access=$directory/log/access.log" \
        -o "log.error=$directory/error.log" -o log.ring=64K -o workers.processes=1 -o workers.threads=2 \
        "${options[@]}" >/dev/null &
    server=$!
    until ctl ping >/dev/null 2>&1; do
        kill -0 "$server"
        sleep 0.1
    done
    address=$(ctl --json status | sed -n 's/.*"listening":\["\([^"]*\).*/\1/p')
}

# stop STATUS: stops the server, whose exit status must be STATUS.
stop() {
    local status=0

    kill "$server"
    wait "$server" || status=$?
    server=''
    [ "$status" -eq "$1" ] || fail "exit status $status of a stop, not $1"
}

metric() {
    ctl --json status | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

# Waits: a request is counted after its response.
wait_for_metric() {
    until [ "$(metric "$1")" -eq "$2" ]; do
        sleep 0.1
    done
}

# Waits: the logger writes the messages of all processes.
wait_for_message() {
    until grep -q "$1" "$directory/error.log"; do
        sleep 0.05
    done
}

# load REQUESTS [OPTION...]
load() {
    "$bin/wsload" --engine raw -c 10 -n "$@" --timeout 60s --connect-timeout 60s "http://$address/" >/dev/null
}

# when_full = drop: every request is answered, dropped records are counted.
start log.when_full=drop workers.drain_timeout=1s
load "$requests"
wait_for_metric requests "$requests"
[ "$(metric log_dropped)" -gt 0 ] || fail "nothing was dropped although the disk is full"
wait_for_message 'No space left on device'
stop 1

# when_full = wait: clients wait for room. Once there is room, every answer is in the log.
: >"$directory/log/access.log"
start log.when_full=wait log.wait_timeout=1h
load "$requests" &
waiting=$!
until [ "$(metric log_waits)" -gt 0 ]; do
    sleep 0.05
done
mount -o remount,size=64m "$directory/log"
wait "$waiting"
wait_for_metric log_lines "$requests"
[ "$(wc -l <"$directory/log/access.log")" -eq "$requests" ] || fail "lines are missing after the disk had room again"
[ "$(metric log_dropped)" -eq 0 ] || fail "lines were dropped with when_full = wait"
stop 0

# A stop waits for room, for at most drain_timeout; what it loses it counts, and its exit status is 1.
for dispatch in kernel master; do
    : >"$directory/log/access.log"
    mount -o remount,size=64k "$directory/log"
    start "workers.dispatch=$dispatch" log.ring=1M workers.drain_timeout=1s
    load "$few"
    stop 1
    lines=$(wc -l <"$directory/log/access.log")
    [ "$(tail -c 1 "$directory/log/access.log" | wc -l)" -eq 1 ] || fail "$dispatch: the log ends with a part of a line"
    grep -q "$((few - lines)) lines of the access log are lost: No space left" "$directory/error.log" ||
        fail "$dispatch: the error log does not report $((few - lines)) lost lines: $(tail -3 "$directory/error.log")"

    : >"$directory/log/access.log"
    start "workers.dispatch=$dispatch" log.ring=1M workers.drain_timeout=1h
    load "$few"
    stops=$(grep -c ': stopped$' "$directory/error.log" || true)
    kill "$server"
    until [ "$(grep -c ': stopped$' "$directory/error.log")" -gt "$stops" ]; do
        kill -0 "$server"
        sleep 0.05
    done
    mount -o remount,size=64m "$directory/log"
    wait "$server" || fail "$dispatch: exit status $? after a stop that lost no line"
    server=''
    [ "$(wc -l <"$directory/log/access.log")" -eq "$few" ] || fail "$dispatch: the stop did not wait for room on the disk"
done

# The file of a host on a full disk loses its lines, which are counted; all others are logged, and nothing waits.
rm "$directory/log/access.log"
mount -o remount,size=64k "$directory/log"
: >"$directory/error.log"
start "log.access=$directory/access.log" "host small.example.access_log=$directory/log/small.log" log.when_full=wait log.wait_timeout=1h
for host in small.example other.example; do
    load "$requests" -H "Host: $host"
done
until [ $(($(metric log_lines) + $(metric log_lost))) -eq $((2 * requests)) ]; do
    sleep 0.05
done
[ "$(metric log_lost)" -gt 0 ] || fail "the file of a host lost no line although its disk is full"
[ "$(wc -l <"$directory/access.log")" -eq "$requests" ] || fail "the full disk of a host cost lines of others"
[ "$(wc -l <"$directory/log/small.log")" -eq $((requests - $(metric log_lost))) ] || fail "lost lines are counted wrong"
[ "$(tail -c 1 "$directory/log/small.log" | wc -l)" -eq 1 ] || fail "the log of a host ends with a part of a line"
wait_for_message 'small.log of a \[host\]: No space left on device'
[ "$(grep -c 'small.log of a \[host\]: No space left on device; its lines are lost' "$directory/error.log")" -eq 1 ] ||
    fail "the error log does not report the full disk of a host once"
mount -o remount,size=64m "$directory/log"
lost=$(metric log_lost)
load 10 -H "Host: small.example"
wait_for_message "small.log is writable again; $lost lines are lost"
stop 0

# No room for the segment in shared memory: the start fails with a message and leaves nothing behind.
mount -t tmpfs -o size=64k tmpfs /dev/shm
if "$bin/webserverd" -o "server.name=$name" -o "server.run_dir=$directory" -o "server.root=$directory/www" \
    -o server.listen=127.0.0.1:0 -o log.access=off >"$directory/said" 2>&1; then
    fail "the server started without shared memory"
fi
grep -qi 'shared memory\|/dev/shm' "$directory/said" || fail "the message does not name shared memory: $(cat "$directory/said")"
[ -z "$(ls -A /dev/shm)" ] || fail "files left in /dev/shm"
umount /dev/shm
echo "full: passed"
