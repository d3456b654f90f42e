#!/usr/bin/env bash
# Plays the end-to-end scenarios on a real node in a container: starts Docker if it has to, builds what is missing, and fails
# where something cannot be had.
#
#   run.sh [ARGUMENT...]         the node of build.sh
#   run.sh --kind [ARGUMENT...]  a node of kind: of the image that PVBIND_KIND_IMAGE names, where images can be pulled
#
# Further arguments are the tests': a filter, --list, --test-threads and so on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

kind=
if [ "${1:-}" = --kind ]; then
    kind=${PVBIND_KIND_IMAGE:-kindest/node:v1.36.1}
    shift
fi
tests/node/docker.sh
if [ -n "$kind" ]; then
    docker image inspect "$kind" >/dev/null 2>&1 || timeout 900 docker pull "$kind" >&2 || {
        echo "NOT RUN: the image $kind can't be pulled; PVBIND_KIND_IMAGE names another" >&2
        exit 3
    }
    images=${CARGO_TARGET_DIR:-target}/node-images
    [ -f "$images/busybox.tar" ] || tests/node/images.sh "$images"
    export PVBIND_E2E_TARGET=kind PVBIND_KIND_IMAGE=$kind PVBIND_KIND_BUSYBOX=$images/busybox.tar
    tests=(--test e2e)
else
    PVBIND_NODE_IMAGE=$(tests/node/build.sh)
    export PVBIND_E2E_TARGET=node PVBIND_NODE_IMAGE
    tests=(--test node --test e2e)
fi
if ! command -v musl-gcc >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "run.sh: installing musl-tools" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends musl-tools; } >&2
fi
programs=$(tests/control-plane/build.sh provisioner helm)
deploy/image/build.sh
. "${CARGO_TARGET_DIR:-./target}/image/$(uname -m)/built"
export PVBIND_IMAGE=$ARCHIVE HELM=$programs/helm PVBIND_E2E_PROVISIONER=$programs/provisioner
# As everything else is built: the same dependencies, built once.
cargo test --workspace "${tests[@]}" -- "$@"
