#!/usr/bin/env bash
# boot.sh ROOT: systemd as the first process of its own namespaces, without a network, in the directory ROOT. Returns when it has ended.
# Needs root.
set -euo pipefail
root=$(readlink -f "$1")
group=$(findmnt -n -o TARGET -t cgroup2 | head -1)$(sed -n 's/^0:://p' /proc/self/cgroup)/package-$$

# Within the namespaces.
enter() {
    local device
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/dev"
    mkdir "$root/dev/shm" "$root/dev/pts"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    for device in null zero full random urandom tty; do
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    ip link set lo up
    cd "$root"
    pivot_root . mnt
    umount -l /mnt
    mount --make-rshared / # as systemd expects of a container: it mounts credentials in a namespace of its own
    container=unshare exec chroot . /lib/systemd/systemd
}

if [ "${2:-}" = inside ]; then
    enter
fi
mkdir "$group"
trap 'find "$group" -depth -type d -exec rmdir {} +' EXIT
# shellcheck disable=SC2016
bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' boot "$group" \
    unshare --kill-child --pid --mount --uts --ipc --net --cgroup --fork "$0" "$root" inside </dev/null
