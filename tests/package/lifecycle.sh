#!/usr/bin/env bash
# lifecycle.sh PACKAGE [PREVIOUS]: the life of the package on a fresh Debian of this system's release, which boots with systemd in
# namespaces of its own without a network (boot.sh, inside.sh). PREVIOUS is the package of an earlier release, from which it is updated, too.
# Needs root, mmdebstrap and lintian. Leaves nothing behind.
set -euo pipefail
package=$(readlink -f "$1")
previous=${2:+$(readlink -f "$2")}
here=$(readlink -f "$(dirname "$0")")
patience_s=1200

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
! grep -q '^[EW]:' <<<"$faults" || fail "lintian finds errors or warnings"

# What the packages need, without versions and alternatives.
depends() {
    local file

    for file in "$package" ${previous:+"$previous"}; do
        dpkg-deb -f "$file" Depends
    done | tr , '\n' | sed 's/[(|].*//; s/ //g' | sort -u | paste -sd,
}

echo "installing a fresh system"
mmdebstrap --quiet --variant=minbase --include="$(depends),systemd-sysv,dbus,logrotate,man-db,bash-completion,zsh,fish,curl" \
    "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$root" >"$directory/output" 2>&1 || {
    tail -5 "$directory/output"
    fail "no fresh system: does http://deb.debian.org answer?"
}
mkdir "$root/lifecycle"
cp "$package" "$root/lifecycle/new.deb"
[ -z "$previous" ] || cp "$previous" "$root/lifecycle/previous.deb"
# The same package with a lower version.
dpkg-deb --raw-extract "$package" "$directory/old"
sed -i 's/^Version: .*/&~old/' "$directory/old/DEBIAN/control"
dpkg-deb --build --root-owner-group "$directory/old" "$root/lifecycle/old.deb" >/dev/null
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
