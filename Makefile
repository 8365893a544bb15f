# make run and make test set up everything they need: Python >= 3.11, git and a package index are enough.
.DEFAULT_GOAL := help
.PHONY: help run before-after test test-all test-gpu test-newest-textual sanitize check docs screenshots dist clean

BIN := .venv/bin
READY := .venv/.ready
ARGS ?=

help:
	@echo "make run          open the live monitor on a built-in run (ARGS='slow-weight-load --speed 50')"
	@echo "make before-after run the lab with and without a fault, and compare (ARGS='--seconds 60')"
	@echo "make test         run the quick tests: a few minutes (ARGS='-k name' for some of them)"
	@echo "make test-all     run every test, also those that are slow or need a real component (sshd, tmux, ...)"
	@echo "make test-gpu     poll the GPUs of this machine, and write what that takes to docs/gpu.md"
	@echo "make test-newest-textual  run the tests of the screen with the newest Textual, above the version that is allowed"
	@echo "make sanitize     run those of the compiled search under gcc's sanitizers"
	@echo "make check        lint, format, types, layers"
	@echo "make docs         regenerate the generated parts of the documentation"
	@echo "make screenshots  make its pictures"
	@echo "make dist         build the sdist and, from it, the wheel; try the wheel"
	@echo "make clean        remove what make made"

# Without a terminal there is no screen: then the built-in run is written to files and analysed.
SCENARIO = $(filter-out -%,$(firstword $(ARGS)))
run: $(READY)
	@if [ -t 0 ] && [ -t 2 ]; then $(BIN)/perfmon demo $(ARGS); else \
	  folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  $(BIN)/python -m perfmon.demo "$$folder" $(if $(SCENARIO),--scenario $(SCENARIO)) && \
	  $(BIN)/perfmon analyze "$$folder"; fi

before-after: $(READY)
	$(BIN)/python -m lab.before_after $(ARGS)

# Tests that share an expensive run name it as their group: it is played once, not once for every worker.
PYTEST = $(BIN)/python -m pytest -n auto --dist loadgroup
test: $(READY)
	$(PYTEST) -m "not slow and not system" $(ARGS)

test-all: $(READY)
	$(PYTEST) $(ARGS)

test-gpu: $(READY)
	PERFMON_GPU_PAGE=docs/gpu.md $(BIN)/python -m pytest -q tests/system/test_gpu.py $(ARGS) || [ $$? = 5 ]

# Says whether the ceiling in pyproject.toml can be raised; the environment itself stays as it is.
test-newest-textual: $(READY)
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  if $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    $(BIN)/python -m pip install --quiet --upgrade --target "$$folder" textual; \
	  else \
	    uv pip install --quiet --python $(BIN)/python --upgrade --target "$$folder" textual; \
	  fi && \
	  export PYTHONPATH="$$folder" && \
	  $(BIN)/python -c 'import importlib.metadata as m; print("Textual", m.version("textual"))' && \
	  $(PYTEST) tests/tui tests/system/test_terminal.py tests/system/test_hangup.py $(ARGS)

sanitize: $(READY)
	$(BIN)/python tests/sanitized.py $(ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/python docs/refresh.py

screenshots: $(READY)
	$(BIN)/python docs/screenshots.py

# `build` makes the wheel from the sdist: made from the folder, a stale build/ would ship deleted modules.
dist: $(READY)
	rm -rf build dist
	$(BIN)/python -m build
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  $(BIN)/python -m venv "$$folder" && "$$folder/bin/pip" install --quiet dist/*.whl && cd "$$folder" && \
	  bin/perfmon --version && bin/perfmon rules list | grep -q frontend-queue && echo "the wheel works"

clean:
	rm -rf .venv build dist perfmon_tui.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache sources/*.so

$(READY): pyproject.toml sources/_scanning.c sources/_search.h sources/_clocks.h
	@if command -v uv >/dev/null && uv --version >/dev/null 2>&1; then \
	  { test -x $(BIN)/python || uv venv --quiet --python '>=3.11' .venv; } && \
	  PYTHONWARNINGS=ignore uv pip install --quiet --python $(BIN)/python --editable . --group dev; \
	else \
	  for python in python3 python3.14 python3.13 python3.12 python3.11 none; do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	  done; \
	  if [ "$$python" = none ]; then echo "perfmon needs Python 3.11 or newer (or uv) on PATH" >&2; exit 2; fi; \
	  { test -x $(BIN)/pip || "$$python" -m venv .venv; } && \
	  $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' && \
	  PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable . --group dev; \
	fi
	@touch $@
