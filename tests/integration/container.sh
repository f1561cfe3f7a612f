#!/usr/bin/env bash
# Checks Dockerfile and compose.yaml without a container engine: the packages and files are those that the
# programs need, and the server runs with the container's user, file system, limits and configuration.
# container.sh BIN_DIRECTORY SOURCE_DIRECTORY; the last part needs root.
set -euo pipefail
bin=$1 source=$2
cd "$source"

fail() {
    echo "container: $*" >&2
    exit 1
}

# The packages that stage NUMBER (0, 1) of the Dockerfile installs, one per line.
packages() {
    awk -v stage="$1" '/^FROM/ { at++ } at == stage + 1' Dockerfile |
        sed -n '/apt-get install/,/[^\\]$/p' | tr -s ' \\\n' '\n' | grep -E '^[a-z0-9.+-]+$' |
        grep -vxE 'apt-get|install|update'
}

# The package of each PATH, one "PATH PACKAGE" per line.
owners() {
    local path name owned names=()

    for path in "$@"; do # ask for all names of the file: dpkg may know only one of them
        names+=("$(readlink -f "$path" || true)" "$path" "/usr$path")
    done
    owned=$(dpkg-query -S "${names[@]}" 2>/dev/null || true)
    for path in "$@"; do
        for name in "$(readlink -f "$path" || true)" "$path" "/usr$path"; do
            awk -F ': ' -v path="$path" -v name="$name" '$2 == name { sub(":.*", "", $1); print path, $1 }' <<<"$owned"
        done
    done
}

libraries_are_installed() {
    local program library path package paths cache owned installed

    cache=$(ldconfig -p)
    installed=$(packages 1 | sed 's/t64$//') # Debian 13 has another name for some packages of Debian 12
    paths=$(for program in webserverd wsctl wsconsole wsload; do
        for library in $(objdump -p "$bin/$program" | awk '$1 == "NEEDED" { print $2 }'); do
            path=$(awk -v name="$library" '$1 == name { print $NF; exit }' <<<"$cache")
            echo "$program $library ${path:-$library}"
        done
    done)
    # shellcheck disable=SC2046
    owned=$(owners $(cut -d ' ' -f 3 <<<"$paths" | sort -u))
    while read -r program library path; do
        package=$(awk -v path="$path" '$1 == path { print $2; exit }' <<<"$owned")
        [ "$package" = libc6 ] || grep -qxF "${package%t64}" <<<"$installed" ||
            fail "$program needs $library of $package, not installed by the Dockerfile"
    done <<<"$paths"
}

build_packages_are_known() {
    local package

    for package in $(packages 0); do
        grep -qE "[( ]${package}([ )]|\$)" dev || fail "./dev does not install build package $package"
    done
}

copied_files_are_there() {
    local path

    while read -r path; do
        [ -e "$path" ] || fail "the Dockerfile copies $path, which does not exist"
    done < <(awk '$1 == "COPY" && $2 !~ /^--/ { print $2 }' Dockerfile)
}

# The settings of compose.yaml that container_inside.sh reproduces.
compose_is_strict() {
    local user line

    user=$(awk '$1 == "USER" { print $2 }' Dockerfile)
    for line in 'read_only: true' '- ALL' '- no-new-privileges:true' \
        'mem_limit: ' 'pids_limit: ' "- /run/webserverd:uid=$user,gid=$user,mode=0700" 'test: ["CMD", "wsctl", "check"]'; do
        grep -qF -- "$line" compose.yaml || fail "compose.yaml does not contain '$line'"
    done
}

# wsload accepts the options of the benchmark: it fails only because no host is called web here.
compose_has_a_benchmark() {
    local words

    grep -qF 'profiles: ["benchmark"]' compose.yaml || fail "compose.yaml has no benchmark profile"
    words=$(sed -n 's/^    command: \["\(.*\)"\]$/\1/p' compose.yaml | sed 's/", "/ /g')
    # shellcheck disable=SC2086
    { "$bin/wsload" ${words/-d 10s/-n 1} 2>&1 || true; } | grep -q "cannot resolve host 'web'" ||
        fail "wsload does not accept the options of the benchmark: $words"
}

it_runs_as_in_the_container() {
    local directory status=0

    directory=$(mktemp -d)
    cp "$bin"/{webserverd,wsctl,wsload} etc/container.ini "$directory"
    mv "$directory/container.ini" "$directory/webserver.ini"
    cp -r www "$directory/www"
    chmod -R a+rX "$directory"
    unshare --mount --pid --fork --mount-proc --kill-child tests/integration/container_inside.sh "$directory" ||
        status=$?
    rm -rf "$directory"
    [ "$status" -eq 0 ] || fail "the server does not run with the container's settings"
}

libraries_are_installed
build_packages_are_known
copied_files_are_there
compose_is_strict
compose_has_a_benchmark
if [ "$(id -u)" -eq 0 ] && unshare --mount --pid --fork true 2>/dev/null; then
    it_runs_as_in_the_container
else
    echo "container: not root, or no namespaces: skipping the run"
fi
echo "container: passed"
