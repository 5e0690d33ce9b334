# The front door. `make help` lists what there is; the work is done by meson and by tools/.
SHELL = /bin/bash
PREFIX ?= /usr/local
ARGS ?=
PROGRAMS = atoll src/agent/atoll-agent src/interpreter/atoll-interpreter \
	src/gateway/mcp-gateway

.DEFAULT_GOAL := help
.PHONY: help build run test check bench install clean deps-criu

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

build: ## installs what is missing and compiles the programs into build/
	@tools/deps build
	@TARGETS="$(PROGRAMS)" tools/build build

run: build ## builds, prepares this machine and serves on http://127.0.0.1:3000 (ARGS="--listen ...")
	@tools/deps run criu
	@exec build/atoll serve $(ARGS)

test: ## builds and runs every test; ends with `N passed, N failed`
	@tools/test

check: ## format, layers, analyzers, shell scripts, and each fuzzer for 30 s
	@tools/check

bench: ## measures beside bwrap, crun, nginx, CRIU, buildah and prints ratios
	@tools/deps build run criu bench
	@TARGETS="$(PROGRAMS)" tools/build build-bench
	@BUILD=build-bench BENCH_BUILD=$(CURDIR)/build-bench bench/run

install: build ## copies programs, templates, units and an example configuration below PREFIX
	@[ -n "$(DESTDIR)" ] || tools/deps run criu
	@tools/install "$(DESTDIR)" "$(PREFIX)"

clean: ## removes what was built; keeps the data directory and the cache
	rm -rf build build-*

deps-criu: ## fetches CRIU from a newer Debian when this release's is too old
	@tools/deps criu
