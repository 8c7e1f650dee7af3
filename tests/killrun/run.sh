#!/bin/bash
# Installs the packages as a user would, builds one worker for each language, shows that the checks of the kill run see
# a violation, and runs it. DIST has the wheel and the npm tarball, PROFILE is the cargo profile of the C library.
# Arguments go to run.py instead, if there are any. Writes to target/killrun only.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
dist=$(cd "${DIST:?the folder with the wheel and the npm tarball}" && pwd)
python=${PYTHON:-python3}
out=$root/target/killrun
mkdir -p "$out"

"$python" -m venv --clear "$out/python"
"$out/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$dist"/quorlock-*.whl

rm -rf "$out/node" && mkdir "$out/node"
cp "$here/worker.mjs" "$out/node"
echo '{"private": true}' >"$out/node/package.json"
(cd "$out/node" && npm install --silent --no-audit --no-fund "$dist"/quorlock-*.tgz)

PREFIX=$out/prefix "$root/bindings-c/install.sh" "$root/target/${PROFILE:-ci}"
export PKG_CONFIG_PATH=$out/prefix/lib/pkgconfig
# shellcheck disable=SC2046
cc -std=c11 -O2 -Wall -Wextra -Werror -o "$out/worker-c" "$here/worker.c" \
  $(pkg-config --cflags --libs quorlock) -Wl,-rpath,"$out/prefix/lib"

if [ $# -gt 0 ]; then
  exec "$python" -B "$here/run.py" "$out" "$@"
fi
"$python" -B "$here/run.py" "$out" --sabotage
"$python" -B "$here/run.py" "$out"
exec "$python" -B "$here/run.py" "$out" --servers 3 --seconds 30
