#!/usr/bin/env bash
# lifecycle.sh PACKAGE [OLD_PACKAGE]: the life of the package on a fresh Debian of this system's release, which boots with
# systemd in namespaces of its own without a network (boot.sh, inside.sh). OLD_PACKAGE is what is installed before PACKAGE; by default PACKAGE with a lower version.
# Needs root, mmdebstrap and lintian. Leaves nothing behind.
set -euo pipefail
package=$(readlink -f "$1")
old=${2:+$(readlink -f "$2")}
here=$(readlink -f "$(dirname "$0")")
patience_s=600

fail() {
    echo "package: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || fail "not root"
directory=$(mktemp -d)
root=$directory/root
trap 'rm -rf "$directory"' EXIT

faults=$(lintian --allow-root --tag-display-limit 0 "$package" 2>/dev/null) || true
echo "${faults:-lintian: nothing to say}"
! grep -q '^E:' <<<"$faults" || fail "lintian finds errors"

# The same package with a lower version.
make_old() {
    dpkg-deb --raw-extract "$package" "$directory/old"
    sed -i 's/^Version: .*/&~old/' "$directory/old/DEBIAN/control"
    old=$directory/old.deb
    dpkg-deb --build --root-owner-group "$directory/old" "$old" >/dev/null
}

# What the package needs, without versions and alternatives.
depends() {
    dpkg-deb -f "$package" Depends | tr , '\n' | sed 's/[(|].*//; s/ //g' | paste -sd,
}

[ -n "$old" ] || {
    echo "no older package: the update is from the same one with a lower version"
    make_old
}
echo "installing a fresh system"
mmdebstrap --quiet --variant=minbase --include="$(depends),systemd-sysv,dbus,logrotate,man-db,bash-completion,zsh,fish,curl" \
    "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$root" >"$directory/output" 2>&1 || {
    tail -5 "$directory/output"
    fail "no fresh system: does http://deb.debian.org answer?"
}
mkdir "$root/lifecycle"
cp "$package" "$root/lifecycle/new.deb"
cp "$old" "$root/lifecycle/old.deb"
cp "$here/inside.sh" "$root/lifecycle"
cat >"$root/etc/systemd/system/lifecycle.service" <<'END'
[Unit]
After=basic.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/lifecycle/inside.sh
StandardOutput=append:/lifecycle/output
StandardError=append:/lifecycle/output
END
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../lifecycle.service "$root/etc/systemd/system/multi-user.target.wants/lifecycle.service"

echo "booting it"
timeout "$patience_s" "$here/boot.sh" "$root" >"$directory/console" 2>&1 || true
[ -f "$root/lifecycle/output" ] || {
    tail -5 "$directory/console"
    fail "the system did not boot"
}
cat "$root/lifecycle/output"
[ -f "$root/lifecycle/passed" ] || fail "the life cycle fails"
