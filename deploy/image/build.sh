#!/usr/bin/env bash
# Builds the program as one static file, and an image of it.
# usage: build.sh [x86_64|aarch64]
# Writes target/image/ARCHITECTURE/pvbind and target/image/pvbind-VERSION-ARCHITECTURE.tar (CARGO_TARGET_DIR moves `target`).
# Needs rustup, and a C compiler for musl: Debian's musl-tools; for the other architecture gcc-aarch64-linux-gnu.
set -euo pipefail
cd "$(dirname "$0")/../.."

arch=${1:-$(uname -m)}
case $arch in
    x86_64) architecture=amd64 compiler=musl-gcc package=musl-tools ;;
    aarch64) architecture=arm64 compiler=aarch64-linux-gnu-gcc package="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
    *) echo "build.sh: no image for $arch; take x86_64 or aarch64" >&2; exit 2 ;;
esac
# On the machine itself musl's own wrapper is there.
[ "$arch" != "$(uname -m)" ] || { compiler=musl-gcc package=musl-tools; }
command -v "$compiler" >/dev/null || { echo "build.sh: $compiler is missing: apt-get install $package" >&2; exit 2; }
triple=$arch-unknown-linux-musl
installed=$(rustup target list --installed)
grep -qx "$triple" <<<"$installed" || rustup target add "$triple"

# The last commit says when and what, unless whoever builds from a tarball says so.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
REVISION=${REVISION:-$(git rev-parse HEAD)$(git diff --quiet HEAD || echo -dirty)}
VERSION=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
RUSTC_VERSION=$(rustc --version)
CC_VERSION=$("$compiler" --version | head -n 1)
export SOURCE_DATE_EPOCH REVISION VERSION RUSTC_VERSION CC_VERSION ARCHITECTURE=$architecture

# No folder of this machine gets into the program.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo_home=${CARGO_HOME:-$HOME/.cargo}
remapped=() mapped=()
for pair in "$target=/target" "$PWD=/pvbind" "$cargo_home=/cargo" "$(rustc --print sysroot)=/rust"; do
    remapped+=("--remap-path-prefix=$pair")
    mapped+=("-ffile-prefix-map=$pair")
done
# Nothing unwinds: a panic ends the process.
remapped+=("-Cforce-unwind-tables=no")
[ "$compiler" = musl-gcc ] || remapped+=("-Clinker=rust-lld")
variable=${triple//-/_}
export "CC_$variable=$compiler" "CFLAGS_$variable=${mapped[*]}" CARGO_TARGET_DIR="$target" CARGO_INCREMENTAL=0
separated=$(printf '%s\x1f' "${remapped[@]}")
export CARGO_ENCODED_RUSTFLAGS=${separated%$'\x1f'}
cargo build --locked --profile image --target "$triple" --bin pvbind

binary=$target/image/$arch/pvbind
archive=$target/image/pvbind-$VERSION-$arch.tar
install -D -m 0755 "$target/$triple/image/pvbind" "$binary"
touch -d "@$SOURCE_DATE_EPOCH" "$binary"
# For docker.sh, and whoever goes on with the archive.
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
printf '%s=%q\n' ARCHIVE "$archive" VERSION "$VERSION" REVISION "$REVISION" CREATED "$created" ARCHITECTURE "$ARCHITECTURE" >"$target/image/$arch/built"
deploy/image/archive.sh "$binary" "$archive"
