#!/usr/bin/env bash
# Sees to it that a Docker daemon answers: one that runs already, or one that is installed (Debian, Ubuntu) and started here
# as root. A daemon that it started stays until somebody ends it: its process is the number in the file that is named.
# usage: docker.sh    ends with 0 if Docker can be used; otherwise says NOT RUN and why, and ends with 3.
set -euo pipefail

log=${PVBIND_DOCKERD_LOG:-/var/log/pvbind-dockerd.log}
pid=/run/pvbind-dockerd.pid

not_run() {
    echo "NOT RUN: $*" >&2
    exit 3
}

answers() {
    timeout 20 docker info --format '{{.ServerVersion}}' 2>/dev/null | grep -q .
}

install() {
    command -v apt-get >/dev/null || not_run "there is no dockerd, and no apt-get to install it with; start Docker, or set DOCKER_HOST."
    echo "installing docker.io" >&2
    export DEBIAN_FRONTEND=noninteractive
    local said
    said=$(apt-get update -qq 2>&1 && apt-get install -y -qq --no-install-recommends docker.io iptables 2>&1) ||
        not_run "docker.io can't be installed: $(tail -n 3 <<<"$said")"
}

if command -v docker >/dev/null && answers; then exit 0; fi
[ -z "${DOCKER_HOST:-}" ] || not_run "no Docker daemon answers at DOCKER_HOST=$DOCKER_HOST."
[ "$(id -u)" = 0 ] || not_run "no Docker daemon answers, and only root could start one; start Docker, or set DOCKER_HOST."
command -v dockerd >/dev/null || install

echo "starting dockerd; it writes to $log" >&2
setsid nohup dockerd >"$log" 2>&1 </dev/null &
echo $! >"$pid"
for _ in $(seq 60); do
    if answers; then exit 0; fi
    kill -0 "$(cat "$pid")" 2>/dev/null || break
    sleep 0.5
done
not_run "dockerd does not start: $(tail -n 5 "$log")"
