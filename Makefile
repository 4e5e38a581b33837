# Every target creates the environment it needs: a machine with Python 3.11+, make and git is enough.
# Stamp files inside the environments depend on pyproject.toml, so a second call starts at once and a changed
# dependency is installed before it is needed.

PYTHON ?= python3
# Two workers suit a laptop as well as a small runner: make test WORKERS=8
WORKERS ?= 2
# Anything else for pytest: make test ARGS='-k embedding -x'
ARGS ?=

VENV := .venv
EXTRAS := .venv-extras
DOCS := .venv-docs
PIP_INSTALL := -m pip install -q --disable-pip-version-check

# The one pin, so that the oracles of the extra tests stay the same. On Linux, PyPI's PyTorch brings gigabytes of CUDA that
# nothing here uses; an index of CPU builds spares them: make test-extras PIP_EXTRA_INDEX_URL=...
TORCH := torch==2.13.0

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-extras crash-test lint format quality bench docs clean distclean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.core ## Install the core only and run examples/demo.py
	$(VENV)/bin/python examples/demo.py

# The tests run in parallel already; BLAS threads on top of that would only compete for the same cores.
test test-extras: export OPENBLAS_NUM_THREADS := 1
test test-extras: export OMP_NUM_THREADS := 1

test: $(VENV)/.dev ## Run the tests and the doctests (WORKERS=2, ARGS=)
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal --ignore=tests/extras $(ARGS)

# GPyTorch imports a function that PyTorch has deprecated, and warnings are errors in our tests. SAASBO samples with JAX, which
# warns of every fork from then on: it has a process of its own.
test-extras: $(EXTRAS)/.extras ## Run what needs PyTorch, MuJoCo, Ray, MPI or a browser, in an environment of its own
	$(EXTRAS)/bin/python -m pytest -W 'ignore:`torch.jit:DeprecationWarning' -m 'not torch' tests/extras $(ARGS)
	$(EXTRAS)/bin/python -m pytest -W 'ignore:`torch.jit:DeprecationWarning' -m torch tests/extras/test_botorch_methods.py \
		tests/bench/test_method_conformance.py $(ARGS)

# The suite kills 200 runs; this is for a night: make crash-test KILLS=50000
KILLS ?= 2000
crash-test: $(VENV)/.dev ## Kill thousands of runs at random moments and resume them (KILLS=2000)
	$(VENV)/bin/python tests/journal/crash_harness.py --kills $(KILLS)

lint: $(VENV)/.dev ## Check style, formatting and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/.dev ## Format the code and apply the safe fixes
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

quality: $(VENV)/.dev ## Measure how good the results are on a few problems (3 seeds)
	$(VENV)/bin/python benchmarks/quality.py --seeds 3

bench: $(EXTRAS)/.extras ## Time suggestions beside BoTorch, half an hour (ARGS='--sizes 50x4 200x16')
	$(EXTRAS)/bin/python benchmarks/speed.py $(ARGS)

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(DOCS)/.docs ## Build the documentation into site/
	$(DOCS)/bin/python -m mkdocs build --strict

clean: ## Remove caches and build products
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove the environments as well
	rm -rf $(VENV) $(EXTRAS) $(DOCS)

# A directory's age says nothing about what is in it; these stamps do.
$(VENV)/.created $(EXTRAS)/.created $(DOCS)/.created:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("nestbo needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(@D)
	@touch $@

# Without byte code, of which most would never be used: what is installed stays below 200 MB.
$(VENV)/.core: pyproject.toml | $(VENV)/.created
	$(VENV)/bin/python $(PIP_INSTALL) --no-compile -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.created
	$(VENV)/bin/python $(PIP_INSTALL) -e '.[dev]'
	@touch $(VENV)/.core $@

# An environment of their own, so that `make test` shows that nothing needs PyTorch. BoTorch comes second: it would bring
# the newest PyTorch otherwise. Playwright drives a Chromium that is installed already; it downloads none. Ray lags behind
# new versions of Python, and mpi4py uses an MPI that is installed already.
$(EXTRAS)/.extras: pyproject.toml | $(EXTRAS)/.created
	$(EXTRAS)/bin/python $(PIP_INSTALL) $(TORCH)
	$(EXTRAS)/bin/python $(PIP_INSTALL) -e '.[bench,botorch,mujoco,optuna,report]' hypothesis playwright pytest
	$(EXTRAS)/bin/python $(PIP_INSTALL) dask-jobqueue submitit
	@for extra in mpi ray; do $(EXTRAS)/bin/python $(PIP_INSTALL) -e ".[$$extra]" || \
		echo "nestbo[$$extra] could not be installed: the tests that need it will be skipped"; done
	@touch $@

$(DOCS)/.docs: pyproject.toml | $(DOCS)/.created
	$(DOCS)/bin/python $(PIP_INSTALL) -e '.[docs]'
	@touch $@
