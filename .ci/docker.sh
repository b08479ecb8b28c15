#!/usr/bin/env bash
# A Docker daemon of our own for the tests marked `docker`, where none runs: as root, without a registry or a network.
#   eval "$(bash .ci/docker.sh start)"    installs docker.io if need be; sets DOCKER_HOST
#   bash .ci/docker.sh stop               ends the daemon that `start` started and removes all that it kept
# GUERDON_DOCKER_DIR says where it lives (default /tmp/guerdon-docker).
set -euo pipefail

dir=${GUERDON_DOCKER_DIR:-/tmp/guerdon-docker}
pidfile=$dir/docker.pid
alive() { [[ -f $pidfile ]] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }

start() {
    if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
        { apt-get update -q && apt-get install -y -q --no-install-recommends docker.io; } >&2
    fi
    mkdir -p "$dir"
    if ! alive; then
        rm -f "$pidfile"
        # Its input is no /dev/null: runc 1.1.5 may hand that to a container's user.
        setsid dockerd --data-root "$dir/data" --exec-root "$dir/exec" -H "unix://$dir/docker.sock" --pidfile "$pidfile" \
            --iptables=false --ip6tables=false --bridge=none --ip-forward=false --ip-masq=false --userland-proxy=false \
            </dev/zero >"$dir/log" 2>&1 &
    fi
    for _ in $(seq 150); do
        if alive && DOCKER_HOST=unix://$dir/docker.sock docker version >/dev/null 2>&1; then
            echo "export DOCKER_HOST=unix://$dir/docker.sock"
            return
        fi
        sleep 0.2
    done
    tail -n 20 "$dir/log" >&2
    stop
    exit 1
}

stop() {
    if alive; then
        pid=$(cat "$pidfile")
        kill "$pid"
        for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
        kill -KILL "$pid" 2>/dev/null || true
    fi
    # What is mounted below it, the deepest first; a plain rm would reach into it.
    cut -d' ' -f2 /proc/self/mounts | { grep -F "$dir/" || true; } | sort -r | while read -r mount; do umount -l "$mount"; done
    rm -rf "$dir"
    rmdir /sys/fs/cgroup/docker /sys/fs/cgroup/*/docker 2>/dev/null || true  # empty ones: another daemon's may be in use
}

case ${1:-} in
start) start ;;
stop) stop ;;
*) echo "usage: docker.sh start|stop" >&2; exit 2 ;;
esac
