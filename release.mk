# What a release takes, a part of the Makefile (docs/release.md):
#   make wheels     sdist and wheel for manylinux, of the commit alone, into dist: made with zig in an environment of
#                   their own, and checked. RELEASE_ARGS="--twice": all is made twice, and the bytes must be the same;
#                   "--machines x86_64 aarch64": a wheel for each; ARCBEAM_CUDA_ARCHS=none: no kernels
#   make test-long  the tests of a release: every schedule of a kernel, every mutant, all architectures, the larger sets
#   make release-check   what a release needs besides tests: the page and the tables of benchmarks are those of the
#                   results, and none of these is stale

.PHONY: wheels test-long release-check

RELEASE := $(VENV)-release

# Without an nvcc that of the PyPI package is installed, too.
wheels: export ARCBEAM_CUDA_ARCHS ?= all
wheels:
	@[ -x $(RELEASE)/bin/pip ] || "$$(.ci/find-python $(or $(PYTHON),python3.11 python3.12 python3))" -m venv $(RELEASE)
	@$(RELEASE)/bin/python build_backend/release.py --needs | xargs -d '\n' \
		$(RELEASE)/bin/python -m pip install --disable-pip-version-check -qq
	$(RELEASE)/bin/python build_backend/release.py $(RELEASE_ARGS)

test-long: $(VENV)/has-test
	$(BIN)/python -m pytest $(BY_CORES) --long $(PYTEST_ARGS)

release-check: $(VENV)/has-test
	$(BIN)/python -m benchmarks.report --release
