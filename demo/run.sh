#!/bin/bash
# Installs the packages as a user would, builds one worker for each language, and runs the demo.
# DIST has the wheel and the npm tarball, PREFIX is where `make install` has put the C library, PROFILE is the cargo
# profile of the Rust worker. UNFENCED=1 runs it without the check of the fence. Writes to target/demo only.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
dist=$(cd "${DIST:?the folder with the wheel and the npm tarball}" && pwd)
prefix=$(cd "${PREFIX:?where the C library is installed}" && pwd)
profile=${PROFILE:-release}
python=${PYTHON:-python3}
out=$root/target/demo
mkdir -p "$out"

echo "demo: the wheel into a new virtual environment"
"$python" -m venv --clear "$out/python"
"$out/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$dist"/quorlock-*.whl

echo "demo: the npm tarball into a new project"
rm -rf "$out/node" && mkdir "$out/node"
cp "$here/node/package.json" "$here/node/worker.mjs" "$out/node"
(cd "$out/node" && npm install --silent --no-audit --no-fund "$dist"/quorlock-*.tgz)

echo "demo: the C worker, by pkg-config"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# shellcheck disable=SC2046
cc -std=c11 -O2 -Wall -Wextra -Werror -o "$out/worker-c" "$here/c/worker.c" \
  $(pkg-config --cflags --libs quorlock sqlite3) -Wl,-rpath,"$(pkg-config --variable=libdir quorlock)"

echo "demo: the Rust worker, by cargo"
cargo build --quiet --profile "$profile" --manifest-path "$here/rust/Cargo.toml" --target-dir "$root/target"

exec "$python" -B "$here/demo.py" "$out" "$root/target/$profile/quorlock-demo"
