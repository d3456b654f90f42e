#!/usr/bin/env bash
# Builds real Kubernetes programs from their Go modules, and keeps them outside the checkout.
#
#   build.sh [NAME...]    etcd, kube-apiserver, kube-controller-manager and kube-scheduler, unless others are named:
#                         kubelet, kube-proxy, kubectl, helm for the chart, provisioner, the external one of the folder beside this,
#                         or client-go and controller-runtime, the programs on them in tests/clients
#
# Prints the folder that they are in, for KUBEBUILDER_ASSETS. What is there already is kept: the first time takes some 15 minutes
# on two cores. Without Go, one is brought from the module proxy. All of them are static: an image from scratch holds them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=v1.36.3
go_version=1.26.0
cache=${PVBIND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pvbind}
out=$cache/control-plane-$version
mkdir -p "$out"

# A Go that is new enough: the one on the path, or one that the module proxy has.
bring_go() {
    if command -v go >/dev/null && go version | grep -qE 'go1\.(2[6-9]|[3-9][0-9])'; then
        return
    fi
    local folder=$cache/go-$go_version
    if [ ! -x "$folder/bin/go" ]; then
        local machine proxy name
        case $(uname -m) in
            x86_64) machine=amd64 ;;
            aarch64) machine=arm64 ;;
            *) echo "build.sh: no Go is known for a machine of kind $(uname -m); install Go $go_version" >&2; exit 1 ;;
        esac
        proxy=${GOPROXY:-https://proxy.golang.org}
        name=v0.0.1-go$go_version.linux-$machine
        echo "bringing Go $go_version" >&2
        curl -fsSL --retry 3 --max-time 600 -o "$cache/go.zip" "${proxy%%[,|]*}/golang.org/toolchain/@v/$name.zip"
        rm -rf "$cache/go.new" && mkdir "$cache/go.new"
        python3 -m zipfile -e "$cache/go.zip" "$cache/go.new" 2>/dev/null || unzip -q "$cache/go.zip" -d "$cache/go.new"
        chmod -R u+rwX,a+x "$cache/go.new/golang.org/toolchain@$name/bin" "$cache/go.new/golang.org/toolchain@$name/pkg/tool"
        rm -rf "$folder" && mv "$cache/go.new/golang.org/toolchain@$name" "$folder"
        rm -rf "$cache/go.zip" "$cache/go.new"
    fi
    export PATH=$folder/bin:$PATH
}

# The module in this folder that a program is built from, and its package there.
source_of() {
    case $1 in
        etcd) echo etcd go.etcd.io/etcd/server/v3 ;;
        kube-apiserver | kube-controller-manager | kube-scheduler | kube-proxy | kubectl | kubelet) echo "kubernetes k8s.io/kubernetes/cmd/$1" ;;
        helm) echo helm helm.sh/helm/v4/cmd/helm ;;
        provisioner) echo provisioner . ;;
        client-go | controller-runtime) echo "../clients/$1" . ;;
        *) echo "build.sh: nothing is known of a program $1" >&2; return 1 ;;
    esac
}

build() {
    local module package stamp=k8s.io/component-base/version
    read -r module package < <(source_of "$1")
    echo "building $1" >&2
    # Under another name first: what is half built is never taken for a program.
    (cd "$here/$module" && GOTOOLCHAIN=local CGO_ENABLED=0 go build -buildvcs=false -mod=readonly -o "$out/.$1" \
        -ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=36" "$package")
    mv "$out/.$1" "$out/$1"
}

[ $# -gt 0 ] || set -- etcd kube-apiserver kube-controller-manager kube-scheduler
for name in "$@"; do
    source_of "$name" >/dev/null
    # What is written here may have changed since; what is brought from elsewhere has its version in the folder's name.
    case $name in
        provisioner | client-go | controller-runtime) ;;
        *) [ ! -x "$out/$name" ] || continue ;;
    esac
    bring_go
    build "$name"
done
echo "$out"
