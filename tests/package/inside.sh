#!/usr/bin/env bash
# Run by systemd on the fresh system of lifecycle.sh, with new.deb beside it, old.deb (the same with a lower version), and previous.deb
# if there is one. Creates the file passed.
set -euo pipefail
cd /lifecycle
export HOME=/lifecycle LC_ALL=C.UTF-8 TERM=xterm DEBIAN_FRONTEND=noninteractive
config=/etc/webserverd/webserver.ini
url=http://127.0.0.1:8080/

fail() {
    echo "FAILED: $*"
    systemctl --no-pager status webserverd.service || true
    journalctl --no-pager -n 30 -u webserverd.service || true
    exit 1
}

step() {
    echo "== $*"
}

# until_true WHAT COMMAND...: waits for COMMAND to succeed.
until_true() {
    local what=$1 tries
    shift

    for ((tries = 0; tries < 1200; tries++)); do
        if "$@" >/dev/null 2>&1; then
            return
        fi
        sleep 0.1
    done
    fail "timeout waiting for: $what"
}

# All files but those that systemd, dpkg, useradd and this test write in any case.
files() {
    find / -xdev \( -path /lifecycle -o -path '/etc/*-' -o -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/lib/dpkg \
        -o -path /var/log/journal -o -path /var/log/dpkg.log -o -path /var/log/private -o -path /var/cache/man \
        -o -path /var/lib/systemd -o -path /var/lib/private \) -prune -o -print | sort
}

main_pid() {
    systemctl show -P MainPID webserverd.service
}

serves() {
    [ "$(curl -sf --max-time 60 "$url")" = "$(</usr/share/webserverd/www/index.html)" ]
}

# installs_and_starts PACKAGE
installs_and_starts() {
    step "install: $(dpkg-deb -f "$1" Version)"
    dpkg -i "$1" >dpkg.txt 2>&1 || fail "dpkg -i: $(<dpkg.txt)"
    systemctl is-enabled --quiet webserverd.service || systemctl enable --now webserverd.service
    until_true "a page" serves
    wsctl -s /run/webserverd/webserverd.sock ping
}

has_its_own_users_and_directories() {
    ! journalctl -b --no-pager -u webserverd.service | grep -i migrat || fail "systemd migrates a directory of the package"
    [ "$(stat -c %U "/proc/$(main_pid)")" != root ] || fail "the service runs as root"
    getent passwd webserverd-acme >/dev/null || fail "no user webserverd-acme"
}

# 15 means 1.5 of 10, which systemd calls OK.
is_confined() {
    step "confinement"
    systemd-analyze security --no-pager --threshold=15 webserverd.service >security.txt || fail "$(tail -1 security.txt)"
    tail -1 security.txt
    systemctl reload webserverd.service
    until_true "a page after the reload" serves
}

# A refused configuration fails the reload, says why, and stands in the journal as an error.
refuses_configurations() {
    step "a faulty configuration"
    cp "$config" config.before
    echo 'nonsense' >>"$config"
    ! systemctl reload webserverd.service || fail "the reload of a faulty configuration succeeds"
    until_true "the error in the journal" journal_has_the_error
    serves || fail "no page after the refused reload"
    cp config.before "$config"
    systemctl reload webserverd.service || fail "the reload of the mended configuration fails"
}

journal_has_the_error() {
    journalctl --no-pager -p err -u webserverd.service | grep -q "has no '='"
}

# Ports 80 and 443, whose sockets the service manager opens, with a key that only root can read, as certbot makes it.
serves_privileged_ports() {
    local drop_in=/etc/systemd/system/webserverd.service.d

    step "ports 80 and 443"
    cp "$config" config.before
    mkdir -m 700 /etc/webserverd/made "$drop_in"
    webserverd --self-signed /etc/webserverd/made >/dev/null
    [ "$(stat -c '%a %U' /etc/webserverd/made/localhost.key)" = '600 root' ] || fail "$(stat /etc/webserverd/made/localhost.key)"
    printf '[Service]\nLoadCredential=a.pem:%s.pem\nLoadCredential=a.key:%s.key\n' /etc/webserverd/made/localhost{,} >"$drop_in/key.conf"
    printf '[tls]\ncertificate = /run/credentials/webserverd.service/a.pem\nkey = /run/credentials/webserverd.service/a.key\n' >>"$config"
    systemctl daemon-reload
    webserverd -t --as-service -f "$config" >check.txt 2>&1 || fail "the check as the service: $(<check.txt)"
    ! webserverd -t --as-service -f "$config" -o 'server.listen=*:80' -o tls.key=/etc/webserverd/made/localhost.key >check.txt 2>&1 ||
        fail "the check as the service passes: $(<check.txt)"
    grep -q 'cannot listen on \*:80: Permission denied' check.txt || fail "port 80 is not named: $(<check.txt)"
    grep -q '/etc/webserverd/made/localhost.key: Permission denied' check.txt || fail "the key is not named: $(<check.txt)"
    systemctl stop webserverd.service
    systemctl enable --now webserverd.socket webserverd-https.socket
    systemctl start webserverd.service || fail "the service does not start on the sockets"
    until_true "a page on port 80" curl -sf --max-time 60 http://127.0.0.1/
    curl -skf --max-time 60 https://127.0.0.1/ >page.txt || fail "no page on port 443"
    webserverd -t --as-service -f "$config" -o 'server.listen=*:80' >check.txt 2>&1 || fail "the check with the sockets: $(<check.txt)"
    systemctl stop webserverd.service webserverd.socket webserverd-https.socket
    cp config.before "$config"
    rm -r /etc/webserverd/made "$drop_in"
    systemctl daemon-reload
    systemctl start webserverd.service
    until_true "a page" serves
}

# The certificates belong to the user of the service.
keeps_certificates() {
    local state=/var/lib/private/webserverd/acme

    step "certificates"
    cp "$config" config.before
    sed -i 's|^;*listen = .*|listen = 127.0.0.1:8080 https://127.0.0.1:8443|' "$config"
    printf '[acme]\nenabled = on\nagree_to_terms = yes\nhosts = www.example.org\ndirectory = https://127.0.0.1:1/\n' >>"$config"
    systemctl reload webserverd.service
    until_true "the key of the account" test -s "$state/account.key"
    # As of systemd 257 nobody has them on the disk, and the service by an ID-mapped mount.
    [[ $(stat -c '%a %U' "$state") =~ ^700\ (nobody|$(stat -c %U "/proc/$(main_pid)"))$ ]] || fail "$(stat "$state")"
    systemctl restart webserverd.service
    until_true "a page after the restart" serves
    until_true "a self-signed certificate" curl -sk --resolve www.example.org:8443:127.0.0.1 https://www.example.org:8443/
    cp config.before "$config"
    systemctl reload webserverd.service
    until_true "a page without certificates" serves
}

is_documented() {
    local page

    step "manuals and completions"
    page=$(man webserverd)
    [[ $page == *'web server that can be inspected'* ]] || fail "man webserverd"
    while read -r page; do
        man -w "${page##*.}" "${page%.*}" >/dev/null || fail "man ${page##*.} ${page%.*}"
    done < <(dpkg -L webserverd | sed -n 's|^/usr/share/man/man./\(.*\)\.gz$|\1|p')
    bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader wsctl; complete -p wsctl' >/dev/null ||
        fail "bash has no completion of wsctl"
    # shellcheck disable=SC2016
    [ "$(zsh -fc 'autoload -U compinit; compinit -D -u; print ${_comps[wsctl]}')" = _wsctl ] || fail "zsh has no completion of wsctl"
    fish -c 'complete -C "wsctl rel"' | grep -q reload || fail "fish has no completion of wsctl"
}

rotates_logs() {
    step "rotation"
    logrotate --force --state rotation.state /etc/logrotate.d/webserverd
    serves || fail "no page after the rotation"
    until_true "a line in the new log" grep -q 'GET / ' /var/log/webserverd/access.log
    gzip -dc /var/log/webserverd/access.log.1.gz | grep -q 'GET / ' || fail "the old log is empty"
}

# The running program continues, and says why.
survives_a_broken_update() {
    local before

    step "update with a faulty configuration"
    before=$(main_pid)
    cp "$config" config.before
    echo 'nonsense' >>"$config"
    dpkg -i --force-confold new.deb >dpkg.txt 2>&1 || fail "dpkg -i: $(<dpkg.txt)"
    grep -q 'the new version refuses the configuration' dpkg.txt || fail "the update does not say that it failed: $(<dpkg.txt)"
    grep -q "has no '='" dpkg.txt || fail "the update does not say why it failed: $(<dpkg.txt)"
    [ "$(main_pid)" = "$before" ] || fail "another main process"
    serves || fail "no page after the failed update"
    cp config.before "$config"
    wsctl --socket /run/webserverd upgrade || fail "the upgrade by hand fails"
    until_true "another main process" is_replaced "$before"
    serves || fail "no page after the upgrade by hand"
}

# Back to the old version, and to the new one again.
is_downgraded() {
    local before package

    for package in old.deb new.deb; do
        step "without load: $(dpkg-deb -f "$package" Version)"
        before=$(main_pid)
        dpkg -i --force-confold "$package" >dpkg.txt 2>&1 || fail "dpkg -i: $(<dpkg.txt)"
        until_true "another main process" is_replaced "$before"
        serves || fail "no page from $package"
    done
}

# The configuration of the administrator stays, and every request is answered and logged.
updates_under_load() {
    local load before answered lines

    step "update to $(dpkg-deb -f new.deb Version) under load"
    echo '# kept by an update' >>"$config"
    echo '# kept by an update' >>/etc/logrotate.d/webserverd
    before=$(main_pid)
    lines=$(wc -l </var/log/webserverd/access.log)
    dpkg-deb -x new.deb new # whose wsload does not change meanwhile
    new/usr/bin/wsload -c 20 -d 1h --grace 60s --quiet --json "$url" >load.json 2>load.txt &
    load=$!
    until_true "load" has_more_lines "$lines"
    dpkg -i --force-confdef --force-confold new.deb >dpkg.txt 2>&1 || fail "dpkg -i: $(<dpkg.txt)"
    until_true "another main process" is_replaced "$before"
    until_true "the end of the old one" test ! -e "/proc/$before"
    [ "$(readlink "/proc/$(main_pid)/exe")" = /usr/sbin/webserverd ] || fail "the service runs a deleted program"
    serves || fail "no page after the update"
    kill -0 "$load" || fail "the load ended early: $(<load.txt)"
    kill -INT "$load"
    wait "$load" || [ $? -eq 130 ] || fail "requests failed: $(tail -5 load.txt) $(head -c 2000 load.json)"
    answered=$(sed -n 's/.*"answered": *\([0-9]*\).*/\1/p' load.json | head -1)
    grep -q '"failed": *0\b' load.json || fail "requests failed: $(grep -m3 -A3 '"failed"' load.json)"
    echo "$answered requests answered, 0 failed"
    tail -1 "$config" | grep -q 'kept by an update' || fail "$config is replaced"
    tail -1 /etc/logrotate.d/webserverd | grep -q 'kept by an update' || fail "/etc/logrotate.d/webserverd is replaced"
}

has_more_lines() {
    [ "$(wc -l </var/log/webserverd/access.log)" -gt "$1" ]
}

is_replaced() {
    [ "$(main_pid)" != "$1" ] && [ "$(main_pid)" != 0 ]
}

# From the previous release. If its running server cannot be replaced while it runs, the update says what to do.
updates_previous_release() {
    local before

    installs_and_starts previous.deb
    step "update from the previous release"
    echo '# kept by an update' >>"$config"
    before=$(main_pid)
    dpkg -i --force-confold new.deb >dpkg.txt 2>&1 || fail "dpkg -i: $(<dpkg.txt)"
    if [ "$(main_pid)" = "$before" ]; then
        grep 'systemctl restart webserverd.service' dpkg.txt || fail "the update does not say that a restart is needed: $(<dpkg.txt)"
        serves || fail "no page before the restart"
        systemctl restart webserverd.service
    fi
    until_true "a page" serves
    [ "$(readlink "/proc/$(main_pid)/exe")" = /usr/sbin/webserverd ] || fail "the service runs a deleted program"
    tail -1 "$config" | grep -q 'kept by an update' || fail "$config is replaced"
}

is_removed() {
    step "remove"
    dpkg -r webserverd >dpkg.txt 2>&1 || fail "dpkg -r: $(<dpkg.txt)"
    ! pgrep_webserverd || fail "processes are left"
    [ -f "$config" ] || fail "$config is gone"
    [ -z "$(find /dev/shm -name "webserverd.*")" ] || fail "shared memory is left"
    step "purge"
    dpkg -P webserverd >dpkg.txt 2>&1 || fail "dpkg -P: $(<dpkg.txt)"
    files >after
    diff before after || fail "the purge leaves files, or removes those of others"
    [ -z "$(find /var/log/private /var/lib/private /var/lib/systemd /etc/systemd /run -name '*webserverd*' -print -quit)" ] || fail "the purge leaves state"
}

pgrep_webserverd() {
    grep -qsE '^(webserverd|ws-)' /proc/[0-9]*/comm
}

files >before
installs_and_starts new.deb
has_its_own_users_and_directories
is_confined
refuses_configurations
serves_privileged_ports
keeps_certificates
is_documented
rotates_logs
survives_a_broken_update
is_removed
installs_and_starts old.deb
updates_under_load
is_downgraded
is_removed
[ ! -f previous.deb ] || {
    updates_previous_release
    is_removed
}
echo "package: passed"
touch passed
