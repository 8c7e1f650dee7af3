#!/bin/bash
# Prepares what the selected peers need (their packages at the versions pinned here; quorlock's own, built by the Makefile and
# installed as a user would) and runs the benchmark.
# Usage: bench/run.sh [bench.py options], e.g. --tests M1,M3 --peers 'quorlock-*,redlock5'
# PROFILE (release) is the cargo profile of the Rust code; BENCH_CACHE (target/bench-cache) keeps what was prepared.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
export BENCH_CACHE=${BENCH_CACHE:-$root/target/bench-cache}
mkdir -p "$BENCH_CACHE/bin" "$BENCH_CACHE/env"
cache=$(cd "$BENCH_CACHE" && pwd)
profile=${PROFILE:-release}
dist=$root/target/dist/$profile
python=${PYTHON:-python3}

needs=$("$python" "$here/bench.py" --needs "$@")
venv() { # name, packages...: a virtual environment with exactly these
  local dir=$cache/env/$1; shift
  [ -e "$dir/.have" ] && [ "$(cat "$dir/.have")" = "$*" ] && return
  rm -rf "$dir" && "$python" -m venv "$dir" &&
    { [ $# = 0 ] || "$dir/bin/python" -m pip install -q --disable-pip-version-check "$@"; } && echo "$*" > "$dir/.have"
}

node_project() { # name, packages...
  local dir=$cache/env/$1; shift
  [ -e "$dir/.have" ] && [ "$(cat "$dir/.have")" = "$*" ] && return
  rm -rf "$dir" && mkdir -p "$dir" && echo '{"private":true}' > "$dir/package.json"
  (cd "$dir" && npm install --silent --no-audit --no-fund --save-exact "$@")
  echo "$*" > "$dir/.have"
}

rust_worker() { # project, binary, cargo options...: in the workspace's target folder, whose dependencies it shares
  local project=$1 binary=$2 target=${CARGO_TARGET_DIR:-$root/target}; shift 2
  CARGO_TARGET_DIR=$target cargo build -q --profile "$profile" --manifest-path "$here/workers/$project/Cargo.toml" "$@"
  install "$target/$profile/$binary" "$cache/bin/"
}

packages() { make -C "$root" --no-print-directory PROFILE="$profile" "$@"; }

prepare() {
  case $1 in
    peers-py) venv "$1" redis==8.1.0 hiredis==3.5.0 python-redis-lock==4.0.1 pottery==3.0.1 ;;
    peers-py-plain) venv "$1" redis==8.1.0 ;;
    # aioredlock imports distutils, which Python 3.12 dropped: there it counts as a worker that does not start
    peers-py-aioredlock) venv "$1" aioredlock==0.7.3 aioredis==1.3.1 hiredis==3.5.0 || true ;;
    peers-node) node_project "$1" ioredis@5.11.1 redlock4@npm:redlock@4.2.0 redlock5@npm:redlock@5.0.0-beta.2 redis-semaphore@5.8.0 \
      @sesamecare-oss/redlock@1.4.0 redlock-universal@0.8.5 ;;
    peers-rust) rust_worker peers-rust bench-peers --locked ;;
    # not --locked: the lock file would have to follow every release of quorlock
    ours-rust) rust_worker ours-rust bench-ours ;;
    ours-py)
      packages wheel
      venv "$1"
      "$cache/env/$1/bin/python" -m pip install -q --disable-pip-version-check --no-index --force-reinstall "$dist"/quorlock-*.whl ;;
    ours-node)
      packages npm
      rm -rf "$cache/env/$1"
      node_project "$1" "$dist"/quorlock-*.tgz ;;
    ours-c)
      packages install PREFIX="$cache/ours-c" DESTDIR=
      # shellcheck disable=SC2046
      cc -std=c11 -O2 -Wall -Wextra -Werror -o "$cache/bin/bench-ours-c" "$here/workers/ours.c" -pthread \
        $(PKG_CONFIG_PATH=$cache/ours-c/lib/pkgconfig pkg-config --cflags --libs quorlock) -Wl,-rpath,"$cache/ours-c/lib" ;;
  esac
}

# optional flock file, so that a shared machine's compiles do not disturb its timings
if [ -n "${BENCH_LOCK:-}" ]; then exec 9>>"$BENCH_LOCK"; flock 9; fi
for need in $needs; do prepare "$need"; done
exec 9>&-

exec "$python" "$here/bench.py" --cache "$cache" "$@"
