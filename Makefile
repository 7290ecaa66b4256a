# `make demo` and `make test` work in a fresh clone: they find a Python, make .venv and install what is pinned in constraints.txt.
# PYTHON=/path/to/python chooses the interpreter (after `make clean` when .venv exists).

VENV := .venv
BIN := $(VENV)/bin
comma := ,
export PYTHON

# jupyter-execute would write the time of every cell into the file.
define RERUN
import sys, nbclient, nbformat
for path in sys.argv[1:]:
    nbformat.write(nbclient.execute(nbformat.read(path, 4), cwd='notebooks', record_timing=False), path)
endef
export RERUN

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all test-slow lint format docs bench notebooks clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.stamp-base  ## fit a real model: posterior table, verdict, run folder
	$(BIN)/bayeslab fit models/radon.yaml

test: $(VENV)/.stamp-test  ## run the quick tests of every module: five to eight minutes, the first time nine to fourteen (ARGS="-k name" passes options to pytest)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'not slow' $(ARGS)

test-all: $(VENV)/.stamp-test  ## run all tests, two files at a time: an hour and more
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: $(VENV)/.stamp-test  ## run the slow tests only: statistics, compiling, notebooks, comparisons with others' answers
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow $(ARGS)

lint: $(VENV)/.stamp-test  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.stamp-test  ## apply ruff's fixes and formatting
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

docs: $(VENV)/.stamp-docs  ## build docs/_build/html, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.stamp-peers  ## times against plain PyMC, Bambi, JAGS, pyAgrum, pgmpy, hmmlearn, scikit-learn, tomotopy, gensim and NumPyro, as ratios
	$(BIN)/python tests/bench/time_to_posterior.py $(ARGS)
	$(BIN)/python tests/bench/from_pymc.py
	$(BIN)/python tests/bench/regression.py
	$(BIN)/python tests/bench/jags.py
	$(BIN)/python tests/bench/networks.py
	$(BIN)/python tests/bench/structure.py
	$(BIN)/python tests/bench/hidden.py
	$(BIN)/python tests/bench/hidden_sampling.py
	$(BIN)/python tests/bench/dirichlet_process.py
	$(BIN)/python tests/bench/topics.py
	$(BIN)/python tests/bench/gaussian_process.py
	$(BIN)/python tests/bench/learners.py
	$(BIN)/python tests/bench/wrapped.py
	$(BIN)/python tests/bench/back_propagation.py
	$(BIN)/python tests/bench/digits.py
	$(BIN)/python tests/bench/large_tables.py

notebooks: $(VENV)/.stamp-test  ## run the notebooks again and keep their outputs
	$(BIN)/python -c "$$RERUN" notebooks/*.ipynb

clean:  ## remove .venv, caches and built docs; runs/ stays
	rm -rf $(VENV) docs/_build docs/notebooks build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find bayeslab tests docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A usable .venv was finished here (it does not survive being moved), its Python still runs, and no installation broke off half-way:
# pip takes a package whose files were half written for installed.
USABLE := $(shell test "$$(cat $(VENV)/.stamp-venv 2>/dev/null)" = "$(CURDIR)" && test ! -e $(VENV)/.installing \
	&& $(BIN)/python -c '' 2>/dev/null && echo yes)
ifneq ($(USABLE),yes)
.PHONY: $(VENV)/.stamp-venv
endif

$(VENV)/.stamp-venv:
	@python=$$(sh .ci/find-python) || exit 1; \
	echo "Making $(VENV) with $$python"; \
	"$$python" -m venv --clear $(VENV)
	@printf '%s\n' "$(CURDIR)" > $@

INPUTS := pyproject.toml constraints.txt $(VENV)/.stamp-venv

$(VENV)/.stamp-base: $(INPUTS)
	$(call install,.)

$(VENV)/.stamp-test: $(INPUTS)
	$(call install,.[test])

$(VENV)/.stamp-peers: $(INPUTS)
	$(call install,.[test$(comma)peers])

$(VENV)/.stamp-docs: $(INPUTS)
	$(call install,.[docs])

# The mark stays when pip is killed or interrupted, and goes when pip gives up by itself (no network, say): then nothing was changed.
define install
	@echo "Installing $(1) into $(VENV) (a few minutes the first time)"
	@trap 'exit 130' INT TERM HUP; touch $(VENV)/.installing; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '$(1)'; status=$$?; \
	test $$status -gt 2 || rm -f $(VENV)/.installing; exit $$status
	@touch $(VENV)/.stamp-base $@
endef
