#!/bin/sh
# Installs the Debian packages that the demo, the tests and the benchmark need and this machine lacks.
set -eu

missing=
need() { # package, and how to see that it is there
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
need redis-server redis-server --version
need redis-tools redis-cli --version
need pkg-config pkg-config --version
need python3-venv python3 -c 'import ensurepip, venv'
need g++ g++ --version
need make make --version
need valgrind valgrind --version
need openssl openssl version
need libsqlite3-dev pkg-config --exists sqlite3

for tool in cargo python3 node npm gcc; do
    command -v "$tool" >/dev/null || { echo "setup: $tool is needed; see README.md" >&2; exit 1; }
done
[ -z "$missing" ] && exit 0

echo "== setup: apt-get install$missing"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
