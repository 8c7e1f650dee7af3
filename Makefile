# quorlock: `make demo` shows it, `make test` checks everything; both set up what they need and say what they do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# What users get, or (ci) quick to build and with checks on.
PROFILE ?= release
PREFIX ?= /usr/local
TARGET := target
DIST := $(TARGET)/dist/$(PROFILE)
TOOLS := $(TARGET)/tools
LOGS := $(TARGET)/test-logs
BUILT := $(TARGET)/$(PROFILE)
PYTHON ?= python3

# The same for every cargo call, so that maturin's builds and ours share what they compile.
export PYO3_BUILD_EXTENSION_MODULE := 1
export CARGO_TERM_PROGRESS_WHEN := never

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- set-up ---------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: ## install what this machine lacks (Debian packages)
	@tests/setup.sh

$(TOOLS)/.made: bindings-python/requirements-test.txt
	@echo "== python tools into $(TOOLS)"
	rm -rf $(TOOLS)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

bindings-node/node_modules/.made: bindings-node/package-lock.json
	@echo "== node tools into bindings-node/node_modules"
	cd bindings-node && npm ci --no-audit --no-fund --loglevel=error
	touch $@

# --- packages -------------------------------------------------------------------------------------------------------

.PHONY: build
build: ## build everything (PROFILE=release or ci)
	cargo build --profile $(PROFILE) --workspace

.PHONY: wheel
wheel: $(TOOLS)/.made ## the Python wheel, into target/dist/PROFILE
	@echo "== wheel ($(PROFILE))"
	@mkdir -p $(DIST)
	rm -f $(DIST)/*.whl
	$(TOOLS)/bin/maturin build --quiet --profile $(PROFILE) --manifest-path bindings-python/Cargo.toml --out $(DIST)

.PHONY: npm
npm: ## the npm tarball, into target/dist/PROFILE
	@echo "== npm package ($(PROFILE))"
	@mkdir -p $(DIST)
	rm -f $(DIST)/*.tgz
	cd bindings-node && export QUORLOCK_PROFILE=$(PROFILE) && node build.js && npm pack --silent --pack-destination $(abspath $(DIST))

.PHONY: clib
clib: ## the C library, into target/PROFILE
	@echo "== C library ($(PROFILE))"
	cargo build --profile $(PROFILE) -p quorlock-c

.PHONY: install
install: clib ## install the C library, its header and quorlock.pc (PREFIX, DESTDIR)
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" bindings-c/install.sh $(BUILT)

.PHONY: dist
dist: setup wheel npm clib ## all packages

.PHONY: header
header: ## write include/quorlock.h anew
	QUORLOCK_BLESS=1 cargo test --quiet --profile ci -p quorlock-c --test header

# --- the two commands -----------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup wheel npm ## four languages share one lock while servers die: see target/demo/timeline.svg
	$(MAKE) install PREFIX=$(abspath $(TARGET)/demo/prefix) DESTDIR= PROFILE=$(PROFILE)
	DIST=$(DIST) PREFIX=$(TARGET)/demo/prefix PROFILE=$(PROFILE) demo/run.sh

.PHONY: test
test: ## every check; ends with the counts
	@rm -rf $(LOGS) && mkdir -p $(LOGS)
	@$(MAKE) setup
	@for part in lint rust python node c examples demo faults bench; do \
	  echo "=== $$part"; began=$$SECONDS; \
	  $(MAKE) PROFILE=ci test-$$part 2>&1 | tee $(LOGS)/$$part.log; \
	  echo "=== $$part took $$((SECONDS - began)) s"; \
	done
	@$(PYTHON) tests/counts.py $(LOGS)

# --- its parts ------------------------------------------------------------------------------------------------------

.PHONY: fmt
fmt: ## format the Rust code
	cargo fmt --all

.PHONY: lint
lint: test-lint ## format, clippy, and the rules that keep bindings thin
.PHONY: test-lint
test-lint:
	cargo fmt --all --check
	cargo clippy --quiet --profile ci --workspace --exclude quorlock-node --all-targets -- -D warnings
	cargo clippy --quiet --profile ci -p quorlock-node -- -D warnings
	$(PYTHON) tests/lint.py

.PHONY: test-rust
test-rust: ## core, conformance and field cases in Rust
	cargo test --profile ci -p quorlock -p quorlock-tests

.PHONY: test-python
test-python: wheel testbed ## the wheel in a venv of its own: pytest, stubs, types
	@rm -rf $(TARGET)/test-python && $(PYTHON) -m venv $(TARGET)/test-python
	$(TARGET)/test-python/bin/python -m pip install --quiet --disable-pip-version-check -r bindings-python/requirements-test.txt $(DIST)/*.whl
	$(TARGET)/test-python/bin/python -m pytest -q bindings-python/tests

.PHONY: test-node
test-node: npm testbed bindings-node/node_modules/.made ## node:test and the types
	cd bindings-node && npm test

.PHONY: test-c
test-c: ## C programs through pkg-config, the header, symbols, valgrind
	cargo test --profile ci -p quorlock-c
	bindings-c/test.sh

.PHONY: test-examples
test-examples: wheel npm testbed ## every program of examples/ and every code block of README.md
	$(PYTHON) examples/test.py

.PHONY: test-demo
test-demo: demo
	UNFENCED=1 DIST=$(DIST) PREFIX=$(TARGET)/demo/prefix PROFILE=$(PROFILE) demo/run.sh

.PHONY: test-faults
test-faults: wheel npm clib testbed ## 20 processes in four languages, killed, stopped and cut off for a minute
	DIST=$(DIST) PROFILE=$(PROFILE) tests/killrun/run.sh

.PHONY: test-bench
test-bench: wheel npm clib
	BENCH_CACHE=$(TARGET)/bench-ci PROFILE=ci bench/run.sh --quick

.PHONY: testbed
testbed:
	cargo build --quiet --profile ci -p quorlock-tests --bins

# --- figures --------------------------------------------------------------------------------------------------------

.PHONY: bench
bench: setup ## peers against us: make bench TESTS=M1,M3 PEERS=quorlock-rust,redlock5 ROUNDS=5
	BENCH_CACHE=$(TARGET)/bench-cache BENCH_OUT=$(TARGET)/bench PROFILE=$(PROFILE) bench/run.sh \
	  $(if $(TESTS),--tests $(TESTS)) $(if $(PEERS),--peers $(PEERS)) $(if $(ROUNDS),--rounds $(ROUNDS))
