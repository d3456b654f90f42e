#!/usr/bin/env bash
# Writes an image of one program as an OCI archive, without Docker: the same input gives the same bytes.
# `ctr images import` takes it, and `docker load` too: from 25 on by index.json, before by manifest.json.
# usage: archive.sh BINARY ARCHIVE    see the variables below; build.sh sets them all
set -euo pipefail

binary=${1:?the program}
archive=${2:?the archive to write}
: "${SOURCE_DATE_EPOCH:?seconds since 1970; every time in the archive is this one}"
: "${VERSION:?the tag}"
name=${NAME:-pvbind}
architecture=${ARCHITECTURE:-amd64}
revision=${REVISION:-unknown}
rustc=${RUSTC_VERSION:-unknown}
compiler=${CC_VERSION:-unknown}
# What containerd calls an image that Kubernetes knows as $name.
case $name in
    */*) full=$name ;;
    *) full=docker.io/library/$name ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C TZ=UTC
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# Nothing of the machine that packs is left: neither owners, times, modes nor the order of its folders.
pack() {
    tar --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "$@"
}
digest() {
    sha256sum "$1" | cut -d' ' -f1
}
size() {
    stat -c %s "$1"
}
blobs=$work/image/blobs/sha256
mkdir -p "$work/root" "$blobs"
# Moves a file to the blobs; says its digest.
blob() {
    local sum
    sum=$(digest "$1")
    mv "$1" "$blobs/$sum"
    echo "$sum"
}

# The one layer: the program and nothing else. No shell, no libraries, no certificates (a pod is given the cluster's in a file).
cp "$binary" "$work/root/pvbind"
pack --mode=0755 -cf "$work/layer.tar" -C "$work/root" pvbind
content=$(digest "$work/layer.tar")
gzip -9n "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")

cat >"$work/config" <<JSON
{"architecture":"$architecture","os":"linux","created":"$created",
"config":{"User":"65532:65532","Entrypoint":["/pvbind"],"WorkingDir":"/","Labels":{
"org.opencontainers.image.title":"pvbind",
"org.opencontainers.image.description":"Kubernetes volume binding: the PersistentVolume controller, a scheduler, an extender",
"org.opencontainers.image.version":"$VERSION",
"org.opencontainers.image.revision":"$revision",
"org.opencontainers.image.created":"$created",
"org.opencontainers.image.source":"https://github.com/pvbind/pvbind",
"org.opencontainers.image.licenses":"Apache-2.0",
"pvbind.rustc":"$rustc",
"pvbind.cc":"$compiler"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$content"]},
"history":[{"created":"$created","created_by":"COPY pvbind /pvbind"}]}
JSON
config=$(blob "$work/config")

cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$(size "$blobs/$config")},
"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$(size "$blobs/$layer")}]}
JSON
manifest=$(blob "$work/manifest")

cat >"$work/image/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[
{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$manifest","size":$(size "$blobs/$manifest"),
"platform":{"architecture":"$architecture","os":"linux"},
"annotations":{"io.containerd.image.name":"$full:$VERSION","org.opencontainers.image.ref.name":"$VERSION"}}]}
JSON
cat >"$work/image/manifest.json" <<JSON
[{"Config":"blobs/sha256/$config","RepoTags":["$name:$VERSION"],"Layers":["blobs/sha256/$layer"]}]
JSON
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"

mkdir -p "$(dirname "$archive")"
pack --mode=u=rwX,go=rX -cf "$archive" -C "$work/image" blobs index.json manifest.json oci-layout
echo "$archive: $(($(size "$archive") / 1000)) kB, image $name:$VERSION, config sha256:$config, archive sha256:$(digest "$archive")"
