#!/bin/sh
# Installs the library, its header and quorlock.pc from a folder where cargo has built them:
#   PREFIX=/usr/local [DESTDIR=/tmp/package] bindings-c/install.sh target/release
set -eu

built=$1
here=$(dirname "$0")
prefix=${PREFIX:-/usr/local}
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
to=${DESTDIR:-}$prefix
version=$(sed -n 's/^#define QUORLOCK_VERSION "\(.*\)"$/\1/p' "$here/../include/quorlock.h")

install -d "$to/lib/pkgconfig" "$to/include"
install -m 755 "$built/libquorlock.so" "$to/lib/libquorlock.so.$version"
ln -sf "libquorlock.so.$version" "$to/lib/libquorlock.so.0"
ln -sf libquorlock.so.0 "$to/lib/libquorlock.so"
install -m 644 "$built/libquorlock.a" "$to/lib/libquorlock.a"
install -m 644 "$here/../include/quorlock.h" "$to/include/quorlock.h"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "$here/quorlock.pc.in" >"$to/lib/pkgconfig/quorlock.pc"
