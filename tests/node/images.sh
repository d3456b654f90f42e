#!/usr/bin/env bash
# Makes the images that pods need and that are not ours, as archives for `ctr images import`, of programs that are there.
#
#   images.sh DIR [KUBE_SCHEDULER]    e2e.pvbind.dev/busybox:1, e2e.pvbind.dev/pause:1, which is busybox as well, and, of that
#                                     program, e2e.pvbind.dev/kube-scheduler:1
set -euo pipefail
out=${1:?folder}
kube_scheduler=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# What of a folder becomes an image: FOLDER NAME ARCHIVE CHANGE...
image() {
    local folder=$1 name=$2 archive=$3 changes=()
    shift 3
    for change in "$@"; do changes+=(--change "$change"); done
    tar -C "$folder" --owner=0 --group=0 -ch . | docker import "${changes[@]}" - "$name" >/dev/null
    docker save -o "$out/$archive" "$name"
    docker rmi "$name" >/dev/null
}

if ! command -v busybox >/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "images.sh: busybox is missing: install busybox-static" >&2; exit 1; }
    echo "images.sh: installing busybox-static" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends busybox-static; } >&2
fi
mkdir -p "$work/busybox/bin" "$work/busybox/tmp"
cp "$(command -v busybox)" "$work/busybox/bin/busybox"
for applet in $("$work/busybox/bin/busybox" --list); do
    [ "$applet" = busybox ] || ln "$work/busybox/bin/busybox" "$work/busybox/bin/$applet"
done
# A pod's first process: it waits for its end.
pause='["/bin/sh", "-c", "trap exit TERM INT; while :; do sleep 3600 & wait $!; done"]'
image "$work/busybox" e2e.pvbind.dev/pause:1 pause.tar "ENTRYPOINT $pause" 'ENV PATH=/bin'
image "$work/busybox" e2e.pvbind.dev/busybox:1 busybox.tar 'CMD ["/bin/sh"]' 'ENV PATH=/bin'
if [ -n "$kube_scheduler" ]; then
    mkdir -p "$work/kube-scheduler/bin"
    ln -s "$(realpath "$kube_scheduler")" "$work/kube-scheduler/bin/kube-scheduler"
    image "$work/kube-scheduler" e2e.pvbind.dev/kube-scheduler:1 kube-scheduler.tar 'CMD ["kube-scheduler"]' 'ENV PATH=/bin'
fi
