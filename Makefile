# Every command works on a fresh clone: it needs make, bash and Python 3.11 or newer, and makes .venv by itself (.ci/env.py).
SHELL := bash
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)
PY := .venv/bin/python
STACKS := .venv-stacks/bin/python
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help base dev demo test check docs fmt deep bench package stacks cover hooks clean

help:  ## list the commands
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## */\t/' | expand -t 12

base:
	@$(PYTHON) .ci/env.py base

dev:
	@$(PYTHON) .ci/env.py dev

demo: base  ## a tour of guerdon on recorded GSM8K rollouts; installs only what guerdon needs to run
	.venv/bin/guerdon demo

test: dev  ## the tests and doctests, slow ones apart: make test ARGS='-k gate'
	@$(if $(ARGS),$(PY) -m pytest $(ARGS),bash .ci/test.sh)

check: dev  ## format, lint, types, import direction, documentation
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	@$(MAKE) -s docs

docs: dev  ## build the documentation into build/docs; warnings are errors
	$(PY) -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs

fmt: dev  ## format, and mend what ruff can mend
	$(PY) -m ruff check --fix-only -q .
	$(PY) -m ruff format .

deep: dev  ## every test, slow ones too, with many more examples of each property
	GUERDON_DEEP=1 $(PY) -m pytest $(ARGS)

bench: dev  ## the benchmarks; those of losses, TRL and the server want make stacks before them
	@for file in benchmarks/bench_*.py; do echo "== $$file"; py=$(PY); \
	[[ $$file =~ (losses|trl|serve).py && -x $(STACKS) ]] && py=$(STACKS); $$py $$file || exit 1; done

package: dev  ## build the sdist, the wheel from it, and use the wheel outside the clone
	$(PY) -m pytest -m slow tests/test_layout.py

stacks:  ## the losses and the adapters against the code of TRL, verl and OpenRLHF; installs torch into .venv-stacks
	@$(PYTHON) .ci/env.py stacks
	$(STACKS) -m pytest -m "not slow" tests/backends tests/conformance src/guerdon/backends/grpo $(ARGS)
	@for stack in trl openrlhf verl; do $(STACKS) -m pytest -m "stacks and not slow" tests/stacks/$$stack $(ARGS) || exit 1; done

cover: dev  ## the tests with coverage
	$(PY) -m coverage run -m pytest -q $(ARGS)
	$(PY) -m coverage report

hooks: dev  ## install the git hooks
	$(PY) -m pre_commit install

clean:  ## remove what the commands made in this clone
	rm -rf .venv .venv-stacks build dist src/*.egg-info .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
