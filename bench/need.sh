# Sourced by quickstart.sh and tests/run.sh: installs Debian packages that are missing, or says how.
# Where dpkg is not, whoever runs this has their own names for these things, and the build says what it misses.

missing() {
    for package; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf ' %s' "$package"
    done
}

# install PACKAGES: apt-get's answer, its words kept for a failure.
install() {
    log=$(mktemp) || return 1
    export DEBIAN_FRONTEND=noninteractive
    if { [ -n "$updated" ] || apt-get update; } > "$log" 2>&1 &&
        apt-get install -y --no-install-recommends "$@" >> "$log" 2>&1; then
        updated=yes
        rm -f "$log"
        return 0
    fi
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
}

# need PACKAGES: nothing goes on without them.
need() {
    command -v dpkg-query > /dev/null || return 0
    absent=$(missing "$@")
    [ -n "$absent" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        echo "installing$absent"
        # shellcheck disable=SC2086
        install $absent && return 0
    fi
    echo "packages are missing; run this, then the same command again:" >&2
    echo "apt-get install -y --no-install-recommends$absent" >&2
    exit 2
}

# like PACKAGES: one by one, and what cannot be had is done without.
like() {
    command -v dpkg-query > /dev/null || return 0
    for package in $(missing "$@"); do
        if [ "$(id -u)" = 0 ] && echo "installing $package" && install "$package"; then
            continue
        fi
        echo "without $package: what needs it is skipped (apt-get install -y --no-install-recommends $package)"
    done
}

# The flags that mpirun needs here for $1 ranks.
mpirun_flags() {
    [ "$(id -u)" = 0 ] && printf '%s ' --allow-run-as-root
    cores=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
    [ "$cores" -ge "$1" ] || printf '%s ' --oversubscribe
}
