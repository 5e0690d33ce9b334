# The front door. `make help` lists what there is; the work is done by meson and by tools/.
SHELL = /bin/bash
PREFIX ?= /usr/local
ARGS ?=
LANES ?= 2
export WEB ?=
PROGRAMS = atoll src/inside/agent/atoll-agent src/keeper/atoll-keeper src/inside/interpreter/atoll-interpreter \
	src/inside/gateway/mcp-gateway src/tools/atoll-tools
BENCHES = bench/bench-hand bench/bench-list bench/bench-service

.DEFAULT_GOAL := help
.PHONY: help build compile run test test-clean test-machines test-long check bench bench-full bench-compare bench-build install uninstall deb oci clean deps-criu

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

build: ## installs what is missing and compiles the programs into build/ (WEB=off: without the dashboard)
	@tools/deps build
	@$(MAKE) --no-print-directory compile

compile:
	@TARGETS="$(PROGRAMS)" tools/build build

run: build ## builds, prepares this machine and serves on http://127.0.0.1:3000, and with TLS (ARGS="--listen ...")
	@tools/deps run criu criu-zygote-later
	@exec build/atoll serve $(ARGS)

test: ## builds and runs every test; ends with `N passed, N failed` (LANES=1: one after the other)
	@LANES=$(LANES) tools/test

test-clean: ## takes the tree through both minimal Debian releases, until a sandbox answers in each
	@tools/deps run
	@tools/clean-root --run --smoke 12
	@tools/clean-root --run --smoke 13

test-machines: build ## takes the package through its life on virtual machines with Debian 12 and 13, power cuts too
	@tests/machines/run $(RELEASES)

test-long: ## what takes hours: an upgrade, the package, the image, every SDK of the matrix, published clients, both minimal releases, fuzzers
	@tools/test long

check: ## format, rooms, analyzers, shell scripts, and each fuzzer for 30 s
	@tools/check

bench: bench-build ## measures beside peers in six minutes, prints tables, writes docs/benchmarks (PARTS="tti exec")
	@BENCH_BUILD=$(CURDIR)/build-bench bench/run --mode short $(PARTS)

bench-full: bench-build ## the same with all counts, in a quarter of an hour
	@BENCH_BUILD=$(CURDIR)/build-bench bench/run --mode full $(PARTS)

bench-compare: bench-build ## compares two commits by ratio in one run: A=commit B=commit
	@BENCH_BUILD=$(CURDIR)/build-bench bench/compare "$(A)" "$(B)"

bench-build:
	@tools/deps build run criu criu-zygote bench
	@TARGETS="$(PROGRAMS) $(BENCHES)" tools/build build-bench

install: build ## copies programs, templates, units and an example configuration below PREFIX
	@[ -n "$(DESTDIR)" ] || tools/deps run criu criu-zygote
	@tools/install "$(DESTDIR)" "$(PREFIX)"

uninstall: ## removes what install copied; keeps configuration, data and cache (SANDBOXES=keep: sandboxes as well)
	@SANDBOXES=$(SANDBOXES) tools/uninstall "$(DESTDIR)" "$(PREFIX)"

deb: ## makes a Debian package for this release: build/deb/atoll_*.deb
	@tools/deb

oci: ## makes an image for those who run it as a privileged container: build/oci/*.tar
	@tools/oci

clean: ## removes what was built; keeps the data directory and the cache
	rm -rf build build-*

deps-criu: ## fetches CRIU from a newer Debian when this release's is too old
	@tools/deps criu
