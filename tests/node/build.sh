#!/usr/bin/env bash
# Builds the image of a Kubernetes node with its control plane, of packages and Go modules alone: no registry is asked.
#
#   build.sh    prints the name of the image; the parts that are there already are kept
#
# Three layers, each an image of its own named by what it is made of: a Debian with containerd (debootstrap), the Kubernetes
# programs (from KUBEBUILDER_ASSETS where it has them all, else built by ../control-plane/build.sh), and on top the images
# that pods need and start.sh. A Docker daemon has to answer (docker.sh); debootstrap needs root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${PVBIND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pvbind}/node
suite=bookworm
packages=containerd,runc,containernetworking-plugins,iptables,iproute2,procps,kmod,conntrack,openssl
programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)
mkdir -p "$cache"

say() {
    echo "build.sh: $*" >&2
}

present() {
    docker image inspect "$1" >/dev/null 2>&1
}

# Builds an image of what it reads.
build() {
    docker build -q -t "$1" - >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
}

# A short name for what is read.
sum() {
    sha256sum | cut -c1-12
}

# A command of a Debian package, installed where it is missing.
need() {
    command -v "$1" >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { say "$1 is missing: install the package $2"; exit 1; }
    say "installing $2"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2"; } >&2
}

# The first mirror that this machine uses, if it is a Debian.
mirror() {
    [ "$(. /etc/os-release && echo "$ID")" = debian ] || return 0
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
        grep -oE '^(deb|URIs:) .*' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ' || true
}

# Debian's part.
base() {
    local tar=$cache/$1.tar
    if [ ! -f "$tar" ]; then
        need debootstrap debootstrap
        [ "$(id -u)" = 0 ] || { say "debootstrap needs root"; exit 1; }
        say "bringing $suite with $packages"
        local root from
        root=$(mktemp -d -p "$cache")
        from=$(mirror)
        # The mirror may be empty: debootstrap has one of its own.
        debootstrap --variant=minbase --include="$packages" "$suite" "$root" ${from:+"$from"} >"$cache/debootstrap.log" 2>&1 ||
            { tail -n 5 "$cache/debootstrap.log" >&2; say "debootstrap failed; all it said is in $cache/debootstrap.log"; exit 1; }
        rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
        tar -C "$root" --one-file-system --exclude=./dev/* --exclude=./proc/* --exclude=./sys/* -cf "$tar.new" .
        rm -rf "$root"
        mv "$tar.new" "$tar"
    fi
    docker import "$tar" "$1" >/dev/null
}

# Whether a folder has all of the Kubernetes programs.
has_all() {
    local program
    for program in "${programs[@]}"; do
        [ -x "$1/$program" ] || return
    done
}

# The folder with the Kubernetes programs.
assets() {
    if [ -n "${KUBEBUILDER_ASSETS:-}" ] && has_all "$KUBEBUILDER_ASSETS"; then
        echo "$KUBEBUILDER_ASSETS"
    else
        "$here/../control-plane/build.sh" "${programs[@]}"
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

base=pvbind-node-base:$(echo "$suite $packages" | sum)
present "$base" || base "$base"

folder=$(assets)
with_programs=pvbind-node-programs:$( (echo "$base"; cd "$folder" && sha256sum "${programs[@]}") | sum)
if ! present "$with_programs"; then
    say "adding the programs of $folder"
    printf 'FROM %s\nCOPY etcd kube* /usr/local/bin/\n' "$base" >"$work/Dockerfile"
    tar -ch -C "$folder" "${programs[@]}" -C "$work" Dockerfile | build "$with_programs"
fi

node=pvbind-node:$( (echo "$with_programs"; cat "$here/build.sh" "$here/images.sh" "$here/start.sh") | sum)
if ! present "$node"; then
    say "adding what pods need"
    mkdir "$work/node"
    "$here/images.sh" "$work/node/images" "$folder/kube-scheduler"
    cp "$here/start.sh" "$work/node/start.sh"
    cat >"$work/node/Dockerfile" <<DOCKERFILE
FROM $with_programs
COPY images /images/
COPY start.sh /usr/local/bin/start.sh
VOLUME ["/var/lib/containerd", "/var/lib/kubelet"]
EXPOSE 6443
ENTRYPOINT ["/usr/local/bin/start.sh"]
DOCKERFILE
    tar -c -C "$work/node" . | build "$node"
fi
echo "$node"
