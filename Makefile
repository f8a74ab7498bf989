# ssvm-dsl.  `make` lists the targets; each installs what it needs into .venv first, and again only when
# pyproject.toml changes.  Another interpreter: make demo PYTHON=python3.12.  More arguments: make test ARGS="-k chain".

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
# The versions of Python that test-pythons looks for, and the processor that test-sensitive takes its matrix products from.
PYTHONS ?= 3.11 3.12 3.13 3.14
CORE    ?= Nehalem
# Other files are not even read.
SENSITIVE = $(shell grep -rl --include='test_*.py' 'mark[.]sensitive' tests)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Bytecode is kept, whatever the environment says: without it each process takes 6 s to import what it needs, not 1.5.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-sensitive test-pythons test-plugins test-numba check bench fuzz docs clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(VENV)/.installed  ## train a word recogniser on the embedded letters and show its certificate
	@$(BIN)/ssvm demo $(ARGS)

# Each process of the tests has one processor; threads of BLAS on small matrices would wait for each other on it.
test test-sensitive: export OPENBLAS_NUM_THREADS := 1

# A process that dies ends the run: where it is begun again, pytest-xdist waits for ever for the tests it had.
IN_TWO := -n 2 --max-worker-restart=0

test: $(VENV)/.installed-test  ## run the tests, in two processes
	@$(BIN)/python -m pytest $(IN_TWO) --dist loadfile --no-loadscope-reorder $(ARGS)

test-sensitive: $(VENV)/.installed-test  ## run what depends on the last digits as on another processor, without data
	@env -u SSVM_DATA -u SSVM_REQUIRE_DATA -u OPENBLAS_L2_SIZE OPENBLAS_CORETYPE=$(CORE) \
	    $(BIN)/python -m pytest $(IN_TWO) --no-loadscope-reorder -m sensitive $(SENSITIVE) $(ARGS)

test-pythons:  ## run the tests by each installed Python, and with the lowest versions of the dependencies
	@status=0; \
	for version in $(PYTHONS); do \
	    python$$version -c "" 2>/dev/null || { echo "python$$version is not installed"; continue; }; \
	    echo "python$$version, in .venv-$$version:"; \
	    $(MAKE) test PYTHON=python$$version VENV=.venv-$$version || status=1; \
	done; \
	echo "lowest versions of the dependencies, in .venv-lowest:"; \
	$(MAKE) test PYTHON=python$(firstword $(PYTHONS)) VENV=.venv-lowest || status=1; \
	exit $$status

test-plugins:  ## test each package plugins/ssvm-* in a fresh environment: its tests, the conformance kit
	@PYTHON=$(PYTHON) .ci/test-plugin $(notdir $(wildcard plugins/ssvm-*))

test-numba: $(VENV)/.installed  ## check one backend with kernels that plain numba compiles, as with untested versions
	@SSVM_COMPILER=numba $(BIN)/ssvm plugins check chain

check: $(VENV)/.installed-test $(VENV)/.installed-check  ## lint, check spelling, types and the import rules
	@$(BIN)/ruff check .
	@$(BIN)/codespell
	@MYPY_NUM_WORKERS=2 $(BIN)/mypy
	@$(BIN)/python -m pytest tests/architecture/test_imports.py tests/architecture/test_style.py

bench: $(VENV)/.installed-bench  ## measure speed beside the peers, in one run on one thread
	@$(BIN)/python tests/benchmarks/run.py $(ARGS)

fuzz: $(VENV)/.installed-test  ## attack every promise with random input, for minutes or hours
	@$(BIN)/python tests/fuzz/run.py $(ARGS)

docs: $(VENV)/.installed-docs  ## build the documentation with its pictures in docs/_build/html
	@env -u SSVM_DATA $(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html $(ARGS)
	@echo "open docs/_build/html/index.html"

clean:  ## remove .venv and everything that was built
	@rm -rf $(VENV) .venv-* build dist docs/_build docs/_examples docs/gallery docs/reference docs/_pages *.egg-info .mypy_cache .ruff_cache .hypothesis
	@find ssvm_dsl plugins tests -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c "import sys; sys.version_info >= (3, 11) or sys.exit('Python 3.11 or newer is needed, this is %d.%d: make PYTHON=python3.11 ...' % sys.version_info[:2])"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# --no-compile: Python compiles what is imported, when it is; pip would take half a minute for everything.
# The experiments of the papers are a package of their own, of this checkout as well.
PAPERS := --editable plugins/ssvm-papers
PROJECTS := pyproject.toml plugins/ssvm-papers/pyproject.toml
$(VENV)/.installed: $(PROJECTS) | $(BIN)/python
	@echo "installing ssvm-dsl into $(VENV) ..."
	@$(PIP) install --no-compile --editable . $(PAPERS)
	@touch $@

# Newer interpreters need newer versions than the lowest: there are no others built for them.
.venv-lowest/.installed-test: $(PROJECTS) | $(BIN)/python
	@echo "installing ssvm-dsl with the lowest versions of what 'test' needs into $(VENV) ..."
	@.ci/floors test >$(VENV)/floors.txt
	@$(PIP) install --no-compile --constraint $(VENV)/floors.txt --editable '.[test]' $(PAPERS)
	@touch $@

$(VENV)/.installed-%: $(PROJECTS) | $(BIN)/python
	@echo "installing ssvm-dsl with what '$*' needs into $(VENV) ..."
	@$(PIP) install --no-compile --editable '.[$*]' $(PAPERS)
	@touch $@
