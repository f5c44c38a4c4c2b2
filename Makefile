# Every target sets up what it needs, once, and says so: the first run fetches gigabytes.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv/bin
STAMPS := .cache/stamps
export PATH := $(CURDIR)/.cache/bin:$(PATH)
export NO_TORCH_COMPILE := 1
# Waiting OpenMP threads sleep: spinning ones starve each other where cores are shared.
export OMP_WAIT_POLICY := passive
export GOMP_SPINCOUNT := 0

PYTHON_READY := $(STAMPS)/python
SYSTEM_READY := $(STAMPS)/system
NODE_READY := $(STAMPS)/node
PAGE := web/dist/index.html
SERVER := .cache/bin/livekit-server
WEB_SOURCES := $(shell find web/src web/public -type f 2>/dev/null) \
	web/index.html web/vite.config.ts web/tsconfig.json

.PHONY: help setup demo test test-full check bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(PYTHON_READY) $(SYSTEM_READY) $(PAGE) $(SERVER) ## install everything that tests and demo need

demo: $(PYTHON_READY) $(PAGE) $(SERVER) ## start a LiveKit server, the worker and the page; ARGS="--port 8000"
	@exec $(VENV)/python -m agent demo $(ARGS)

test: setup ## run all tests but the long forms; ARGS="-k room"
	@scripts/run-tests $(ARGS)
	cd web && npm test

test-full: setup ## run all tests, long forms and slow ones included
	@scripts/run-tests --full --slow $(ARGS)
	cd web && npm test

check: $(PYTHON_READY) $(NODE_READY) ## ruff, mypy --strict, eslint, tsc
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	cd web && npm run lint && npm run types

bench: $(PYTHON_READY) $(SERVER) ## measure on an idle machine, results into build/bench; ARGS="--rounds 11"
	@mkdir -p build/bench
	$(VENV)/python -m tests.bench.cpu --json build/bench/cpu.json $(ARGS)
	$(VENV)/python -m tests.bench.demo --json build/bench/demo.json
	$(VENV)/python -m tests.bench.gate_c --model demo --frames 100 --json build/bench/gate_c_demo.json
	$(VENV)/python -m tests.bench.gate_c --model small --frames 40 --json build/bench/gate_c_small.json
	$(VENV)/python -m tests.bench.wire --json build/bench/wire.json
	$(VENV)/python -m tests.bench.room --json build/bench/room.json

clean: ## remove everything that was built or fetched
	rm -rf .venv .cache web/node_modules web/dist build *.egg-info agent/plugin/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PYTHON_READY): pyproject.toml constraints.txt agent/plugin/pyproject.toml scripts/setup-python
	@PYTHON="$(PYTHON)" scripts/setup-python
	@mkdir -p $(@D) && touch $@

$(SYSTEM_READY): scripts/setup-system
	@scripts/setup-system
	@mkdir -p $(@D) && touch $@

$(NODE_READY): web/package.json web/package-lock.json
	@echo "setup: fetching the page's node modules into web/node_modules"
	@cd web && npm ci --no-audit --no-fund --loglevel=error
	@mkdir -p $(@D) && touch $@

$(PAGE): $(NODE_READY) $(WEB_SOURCES)
	@echo "setup: building the page into web/dist"
	@cd web && npm run --silent build
	@touch $@

$(SERVER): scripts/setup-livekit-server
	@scripts/setup-livekit-server
