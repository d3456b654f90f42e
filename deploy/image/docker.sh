#!/usr/bin/env bash
# The image by Docker, of the program that build.sh has built.
# usage: docker.sh [x86_64|aarch64]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch=${1:-$(uname -m)}
folder=$(realpath -m "${CARGO_TARGET_DIR:-$here/../../target}")/image/$arch
[ -x "$folder/pvbind" ] || { echo "docker.sh: $folder/pvbind is missing: build.sh $arch builds it" >&2; exit 2; }
# VERSION, REVISION, CREATED and ARCHITECTURE, as they were when it was built.
# shellcheck source=/dev/null
source "$folder/built"
docker build --platform "linux/$ARCHITECTURE" --tag "${NAME:-pvbind}:$VERSION" --file "$here/Dockerfile" \
    --build-arg VERSION="$VERSION" --build-arg REVISION="$REVISION" --build-arg CREATED="$CREATED" "$folder"
