# The workshop. `make help` lists what it does.
# Each recipe is one or two plain commands, so that anybody can run them by hand.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Where the demonstration node keeps its volumes; the same as in examples/demo.toml.
DATA := fels-data

# What the tests need beyond a C linker: a C++ compiler for libFuzzer, git for the advisory database, real
# initiators, an emulator to boot a kernel in, and what others monitor with, and a browser.
TEST_PACKAGES := gcc libc6-dev g++ git ca-certificates libiscsi-bin open-iscsi qemu-utils qemu-block-extra \
                 qemu-system-x86 busybox-static kmod e2fsprogs mount util-linux nvme-cli libnbd-bin nbd-client fio \
                 valgrind prometheus munin rrdtool faketime chromium python3-venv python3-aiosmtpd
# What a Debian package is made and tried with.
DEB_PACKAGES := gcc libc6-dev binutils dpkg-dev lintian systemd util-linux
# What the side-by-side needs: the other servers, and the clients that are not ours.
PEER_PACKAGES := gcc libc6-dev tgt istgt nbdkit qemu-utils libiscsi-bin fio util-linux libisal2

.PHONY: help run build deb deb-test test test-deps fuzz sim sanitize counts bench-peers fmt lint doc clean-data

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

build: ## build the release binary, target/release/fels
	@.ci/need gcc libc6-dev
	cargo build --release --package fels

run: build ## build, then serve the demonstration volume on 127.0.0.1 in the foreground
	target/release/fels serve --config examples/demo.toml

deb: build ## build the Debian package, target/deb/fels_*.deb
	@.ci/need $(DEB_PACKAGES)
	packaging/deb/build target/release/fels target/deb

# It needs root, for namespaces with a systemd of their own; nothing of this machine is changed.
deb-test: deb ## install the package in a copy of this system, run it under its systemd unit, hang it, remove it
	packaging/deb/test target/deb/fels_*.deb

test-deps: ## install what the tests need, only what is missing
	@.ci/need $(TEST_PACKAGES)
	@.ci/schemathesis
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
	@rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
	@command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	@.ci/browser

# FUZZ_SECONDS is the time of each fuzz target, two of them at once.
test: export FUZZ_SECONDS ?= 20
test: test-deps ## format, lint, licences, every test, and each fuzz target for 20 seconds
	@.ci/test

fuzz: export FUZZ_SECONDS ?= 3600
fuzz: test-deps ## fuzz each target for an hour (FUZZ_SECONDS=3600)
	@.ci/fuzz

# A seed that fails is printed with the command that replays it; FELS_SEED=n runs one alone.
sim: export FELS_SEEDS ?= 100000
sim: ## play the simulated world's scenarios with many seeds (FELS_SEEDS=100000 of each)
	@.ci/need gcc libc6-dev
	cargo test --release --package sim -- --nocapture

# About a quarter of an hour. A seed that fails is played again without the sanitizer as `sim` says.
sanitize: ## the tests of unsafe code, of the data plane and of the simulated world under AddressSanitizer
	@.ci/need gcc libc6-dev
	@rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
	@.ci/sanitize

# `make test` compares with them. Commit the file together with the change that moved the figures.
counts: ## rewrite the committed instruction counts of the hot paths, bench/counts/figures.txt
	@.ci/need gcc libc6-dev valgrind
	cargo run --release --package counts -- write

# BENCH_FLAGS is handed on, for example BENCH_FLAGS=--quick. Pools are measured too, unless it asks for something else.
bench-peers: ## measure Fels beside other servers and keep the run in bench/runs/ (BENCH_FLAGS=--quick for a first look)
	@.ci/need $(PEER_PACKAGES)
	cargo build --release --package fels --package bench
	target/release/bench $(BENCH_FLAGS)
	$(if $(filter --rows --servers --list --no-keep --readme,$(BENCH_FLAGS)),,taskset -c 0 target/release/bench pools --out bench/runs $(filter --quick,$(BENCH_FLAGS)))

fmt: ## format all code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

lint: ## all lints, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

doc: ## build the documentation of all crates
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

clean-data: ## remove the demonstration volumes
	rm -rf -- "$(DATA)"
