# Every target does its own set-up: a virtual environment in $(VENV), arcbeam and what it needs installed there.
#   make demo       decode the recordings in data/demo on this machine
#   make test       the tests of the package on this machine
#   make test-kernels    those of the kernels and of the code that launches them, in an emulator
#   make check      lint, then the tests of what differs from the branch main; FOLDER=tests/decode: those of that folder
#   make test-benchmarks those of benchmarks
#   make test-data  the tests on the larger speech sets (ARCBEAM_DATA: their folder, by default shared/data beside the
#                   checkout; without them none run)
#   make mutants    every wrong rule of tests/mutants is seen by a test
#   make docs       the site with the guide and the reference of every public name, into build/site; a broken link, an
#                   unknown name or a missing docstring fails
#   make lint       ruff, mypy, clang-format        make format     let ruff and clang-format rewrite the files
#   make sanitize   the twin's tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
#   make bench-check    whether the CPU engine has become slower: ratios within one run, compared with stored ones
#   make clean      remove what the others made, in the tree, too, but not the data and graphs in .cache
# PYTHON names the interpreter; by default the newest of python3.12, python3.11 and python3 that can be used.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := help

, := ,
VENV ?= .venv
BIN := $(VENV)/bin
# Tests, as many at a time as there are cores; -n 0 in PYTEST_ARGS: one by one.
BY_CORES := -n auto --maxprocesses=8 --dist=worksteal
EVERYWHERE := $(patsubst %,--ignore=%,tests/benchmarks tests/mutants) $(PYTEST_ARGS)
# Modules become bytecode when they are first imported: most never are.
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-compile -qq
# The larger speech sets, where they lie beside the checkout; benchmarks/data/datasets.py looks there, too.
ifneq ($(wildcard ../shared/data/tokens.txt),)
ARCBEAM_DATA ?= $(abspath ../shared/data)
endif
ifdef ARCBEAM_DATA
export ARCBEAM_DATA
endif

CXX_FILES = find cuda cpu_reference pyx tests benchmarks -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh'
SOURCES := setup.py $(wildcard build_backend/*.py) pyproject.toml README.md LICENSE $(shell find pyx cuda cpu_reference data/demo -type f \
	'(' -name '*.py' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.html' -o -name '*.css' -o -name '*.js' -o -path 'data/demo/*' ')' 2>/dev/null)

.PHONY: help demo test test-kernels check test-benchmarks test-data mutants docs lint format sanitize bench-check clean
help:
	@for file in Makefile release.mk gpu.mk; do sed -n '2,/^$$/s/^# \{0,1\}//p' $$file; done

demo: $(VENV)/has-demo
	$(BIN)/arcbeam demo

test: $(VENV)/has-test
	ARCBEAM_EMULATOR=none $(BIN)/python -m pytest $(BY_CORES) -m "not kernels and not long and not data" $(EVERYWHERE)

test-kernels: $(VENV)/has-test
	$(BIN)/python -m pytest $(BY_CORES) -m "kernels and not long and not data" $(EVERYWHERE)

test-benchmarks: $(VENV)/has-test
	$(BIN)/python -m pytest $(BY_CORES) tests/benchmarks $(PYTEST_ARGS)

check: lint $(VENV)/has-test
	@tests="$(FOLDER)"; [ -n "$$tests" ] || tests=$$($(BIN)/python -m tests.changed); \
	[ -z "$$tests" ] || $(BIN)/python -m pytest $(BY_CORES) $(PYTEST_ARGS) $$tests

test-data: $(VENV)/has-test
	$(BIN)/python -m pytest $(BY_CORES) -m "data and not long" $(PYTEST_ARGS)

mutants: $(VENV)/has-test
	$(BIN)/python -m pytest $(BY_CORES) --long tests/mutants $(PYTEST_ARGS)

# It reads the sources: neither arcbeam nor a compiler is needed.
docs: $(VENV)/has-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "the site is in build/site: open build/site/index.html, or serve it with python3 -m http.server -d build/site"

lint: $(VENV)/has-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(CXX_FILES) | xargs $(BIN)/clang-format --dry-run -Werror

format: $(VENV)/has-lint
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(CXX_FILES) | xargs $(BIN)/clang-format -i

sanitize: $(VENV)/has-test
	PYTHON=$(BIN)/python tests/sanitize/run $(BY_CORES)

bench-check: $(VENV)/has-test
	$(BIN)/python -m benchmarks.check $(CHECK_ARGS)

clean:
	rm -rf $(VENV) $(VENV)-release build dist pyx/*.egg-info pyx/arcbeam/kernels .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find pyx -name '*.so' -delete
	find . -path ./.git -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/made:
	@python=$$(.ci/find-python $(or $(PYTHON),python3.12 python3.11 python3)); \
	echo "virtual environment $(VENV) of $$python"; \
	"$$python" -m venv --clear $(VENV)
	@$(INSTALL) "setuptools>=77" "cython>=3.2"
	@touch $@

# What builds is in the virtual environment, too: in one of its own, new every time, Cython would seem newer than what it
# has made, and all would be made again. It is compiled before pip runs, which would hide how far that is. A module that
# was deleted or renamed must not reach the wheel from an earlier build.
define install_arcbeam
	@rm -rf build/bdist.*; find build/lib* -name '*.py' -delete 2>/dev/null || true
	@needs=$$(cd build_backend && $(abspath $(BIN))/python -c 'import cuda_build; print(*map(repr, cuda_build.requirements()))'); \
	[ -z "$$needs" ] || eval $(INSTALL) "$$needs"
	@echo "compiling arcbeam: about two minutes on two cores where nothing has been compiled yet"
	@mkdir -p build; $(2) $(BIN)/python setup.py -q build >build/log
	@echo "installing arcbeam$(1) into $(VENV)"
	@$(2) $(INSTALL) --no-build-isolation '.$(1)'
	@cd $(VENV) && bin/python -c 'from arcbeam.gpu.kernel_images import build_record; print(build_record().summary)'
	@touch $@
endef

$(VENV)/has-demo: $(VENV)/made $(SOURCES)
	$(call install_arcbeam,[build$(,)cli],)

$(VENV)/has-test: $(VENV)/made $(SOURCES)
	$(call install_arcbeam,[build$(,)cli$(,)captions$(,)peers$(,)bench$(,)test],ARCBEAM_STAGES=1 ARCBEAM_WERROR=1)
	@touch $(VENV)/has-demo

# Installs the packages of an extra, without arcbeam.
define install_extra
	@$(INSTALL) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$(1)"])')
	@touch $@
endef

# mypy reads the types of numpy, which comes with arcbeam.
$(VENV)/has-lint: pyproject.toml | $(VENV)/has-test
	$(call install_extra,lint)

$(VENV)/has-docs: pyproject.toml | $(VENV)/made
	$(call install_extra,docs)

include release.mk gpu.mk
