#!/usr/bin/env bash
# Builds the image of the last commit twice, in two folders that have nothing in common, and compares.
# usage: twice.sh [x86_64|aarch64]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
arch=${1:-$(uname -m)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in one elsewhere/other; do
    git clone --quiet --no-hardlinks "$root" "$work/$folder"
    (cd "$work/$folder" && CARGO_TARGET_DIR="$work/$folder/built-here" deploy/image/build.sh "$arch")
    mv "$work/$folder/built-here/image" "$work/$folder.image"
    # The second build finds nothing of the first.
    rm -rf "${work:?}/$folder"
done
sums=$(sha256sum "$work"/*.image/*.tar "$work"/*/*.image/*.tar)
echo "$sums"
[ "$(cut -d' ' -f1 <<<"$sums" | sort -u | wc -l)" = 1 ] || { echo "twice.sh: the two images differ" >&2; exit 1; }
echo "twice.sh: the two images are the same"
