# The targets for a machine with a GPU, a part of the Makefile: they install nothing but build in place.
#   make gpu-test   the engine on this machine's GPU, in parts: PART=driver, decode, rescore, transducer, ptx (the four
#                   with kernels for 8.0, which the driver compiles for a newer GPU), speech, large, riva or sanitizer runs
#                   one alone, and each says how long it took (TOOLS=memcheck, racecheck, synccheck or
#                   initcheck: one tool of the last; SANITIZED=sanitized_rescoring: one engine; BEGINS=plain or grow;
#                   SHARE=2of5: a fifth of the steps of each).
#                   Needs nvcc and a python3 (GPU_PYTHON) with cython, setuptools, numpy, cuda-bindings and pytest;
#                   what torch and CuPy make is tested if they are there. ARCBEAM_GPU_GRAPHS: folder of graphs and log-probs of yours
#   make gpu-graphs builds the graphs for the parts speech and large and for gpu-bench, side by side (GRAPHS=names)
#   make gpu-bench  the experiments on this machine's GPU into benchmarks/results, PART="riva nemo" some of them; what
#                   these kernels and this commit have results of is skipped (FORCE=1: measured again)
#   make gpu-profile     ncu on one launch of the search (DECODE_ARGS="--batch 1 --beam 12 --max-active 5000")
#                   For all of these: WHEELS=folder of wheels to use besides, CARRIED=folder filled by benchmarks.pack,
#                   GPU_LIMIT=seconds (460) after which a command, be it a build or one on the GPU, is ended, so that a
#                   kernel that hangs ends; 0: no limit; GPU_WORKERS=12: so many tests at a time, by pytest-xdist

.PHONY: gpu-site gpu-carried gpu-build gpu-graphs gpu-bench gpu-profile gpu-test
.PHONY: gpu-driver gpu-decode gpu-rescore gpu-transducer gpu-ptx gpu-speech gpu-large gpu-riva gpu-sanitizer

# Builds in place, for a GPU machine may have no network to fill a virtual environment from.
GPU_PYTHON ?= python3
GPU_LIMIT ?= 460
GPU_PATH = PYTHONPATH=$(CURDIR)/pyx:$(CURDIR)/$(GPU_SITE)$(if $(PYTHONPATH),:$(PYTHONPATH))
GPU_RUN = $(GPU_PATH) timeout -k 15 $(GPU_LIMIT)
GPU_TESTS = $(GPU_RUN) $(GPU_PYTHON) -m pytest -q$(if $(GPU_WORKERS), -n $(GPU_WORKERS))
GPU_SITE := build/gpu-site
GPU_TEST_PARTS := $(or $(PART),driver decode rescore transducer ptx speech large riva sanitizer)
# Not those of tests, nor that of another version.
GPU_BENCH_PARTS := $(or $(PART),$(filter-out tests sanitizers versions,$(sort \
	$(patsubst benchmarks/experiments/gpu_%.py,%,$(wildcard benchmarks/experiments/gpu_*.py)))))
TOOLS ?= memcheck synccheck initcheck racecheck
SANITIZED ?= sanitized sanitized_rescoring sanitized_transducers
BEGINS ?= plain grow
# A part, and its command: says how it ended and when. A recipe's shell counts from zero.
timed = @rc=0; $(2) || rc=$$?; \
	echo "gpu-test $(1): $$([ $$rc = 0 ] && echo passed || echo failed) in $$SECONDS s"; exit $$rc

# Wheels and data from elsewhere, where they are named; and no second time.
gpu-site:
ifdef WHEELS
	@cmp -s $(GPU_SITE)/wheels <(ls -l $(WHEELS)/*.whl) || { rm -rf $(GPU_SITE); \
		$(GPU_PYTHON) -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target $(GPU_SITE) $(WHEELS)/*.whl; \
		ls -l $(WHEELS)/*.whl >$(GPU_SITE)/wheels; }
endif

gpu-carried: gpu-build
ifdef CARRIED
	@cmp -s build/carried.json $(CARRIED)/manifest.json || { \
		$(GPU_RUN) $(GPU_PYTHON) -m benchmarks.pack --unpack $(CARRIED) && cp $(CARRIED)/manifest.json build/carried.json; }
endif

# Parts that run side by side take what is there: a build replaces files that the others use.
gpu-build: gpu-site
ifndef AS_BUILT
	@mkdir -p build; \
	ARCBEAM_STAGES=1 timeout -k 15 $(GPU_LIMIT) $(GPU_PYTHON) setup.py -q build_ext --inplace >build/gpu-build.log 2>&1 || \
		{ tail -50 build/gpu-build.log; exit 1; }; \
	tail -1 build/gpu-build.log
	@$(GPU_PATH) $(GPU_PYTHON) -c \
		'from arcbeam.gpu.devices import require_cuda; print("decoding on", require_cuda())'
endif

gpu-test: $(addprefix gpu-,$(GPU_TEST_PARTS))

TESTS_driver := tests/gpu/test_driver_on_gpu.py tests/simt/test_device.py
TESTS_decode := tests/gpu/test_decode_on_gpu.py tests/gpu/test_host_arrays_on_gpu.py tests/gpu/test_two_gpus.py \
	tests/gpu/test_lattice_on_gpu.py tests/gpu/test_streams_on_gpu.py tests/gpu/test_stream_moves_on_gpu.py \
	tests/gpu/test_boost_on_gpu.py tests/gpu/test_what_goes_in_on_gpu.py tests/gpu/test_align_on_gpu.py
# With the graph of 512 pieces where it has been built; the rest needs kaldifst for the demo's.
TESTS_rescore := tests/gpu/test_rescoring_on_gpu.py tests/gpu/test_stages_on_gpu.py \
	tests/gpu/test_rescored_streams_on_gpu.py
TESTS_transducer := tests/gpu/test_transducer_on_gpu.py tests/gpu/test_transducer_sentences_on_gpu.py \
	tests/gpu/test_transducer_beam_on_gpu.py tests/gpu/test_transducer_beam_streams_on_gpu.py \
	tests/gpu/test_transducer_lattice_on_gpu.py

gpu-driver gpu-decode gpu-rescore gpu-transducer: gpu-%: gpu-build
	$(call timed,$*,$(GPU_TESTS) $(TESTS_$*) $(PYTEST_ARGS))

# A copy of the package with other kernels.
gpu-ptx: gpu-build
	@rm -rf build/ptx; mkdir -p build/ptx; cp -r pyx/arcbeam build/ptx/
	cd build_backend; ARCBEAM_CUDA_ARCHS=80 timeout -k 15 $(GPU_LIMIT) $(GPU_PYTHON) -c \
		'import cuda_build; cuda_build.build_kernels("$(CURDIR)/build/ptx/arcbeam/kernels")'
	$(call timed,ptx,PYTHONPATH=$(CURDIR)/build/ptx:$(CURDIR)/$(GPU_SITE)$(if $(PYTHONPATH),:$(PYTHONPATH)) timeout -k 15 $(GPU_LIMIT) \
		$(GPU_PYTHON) -m pytest -q$(if $(GPU_WORKERS), -n $(GPU_WORKERS)) $(TESTS_driver) $(TESTS_decode) $(TESTS_rescore) $(TESTS_transducer) $(PYTEST_ARGS))

# Real speech and workloads; the CPU twin takes most of the time. "large": with the graph of 12 million states.
gpu-speech: gpu-carried
	$(call timed,speech,$(GPU_TESTS) tests/gpu/test_speech_on_gpu.py $(PYTEST_ARGS))

gpu-large: gpu-carried
	$(call timed,large,ARCBEAM_SPEECH_GRAPHS=char-large $(GPU_TESTS) tests/gpu/test_speech_on_gpu.py $(PYTEST_ARGS))

# In a process of its own, which riva may end.
gpu-riva: gpu-carried
	$(call timed,riva,$(GPU_TESTS) tests/gpu/test_riva_on_gpu.py tests/gpu/test_riva_classes_on_gpu.py $(PYTEST_ARGS))

gpu-graphs: gpu-carried
	$(GPU_RUN) $(GPU_PYTHON) -m benchmarks.build_graphs $(GRAPHS)

# What the profiler sees of one launch of the search: build/profile.ncu-rep and its text. The clocks stay as they are.
gpu-profile: gpu-carried
	$(GPU_RUN) ncu --clock-control none --set full --kernel-name regex:arcbeam_search --launch-skip 1 --launch-count 1 \
		--import-source yes --force-overwrite --export build/profile $(GPU_PYTHON) -m benchmarks.one_decode $(DECODE_ARGS)
	ncu --import build/profile.ncu-rep --page details >build/profile.txt

# The most important parts come first, for a run that is ended early; every one is tried, whether or not others failed.
gpu-bench: gpu-carried
	@failed=; \
	for part in $(GPU_BENCH_PARTS); do \
		$(GPU_RUN) $(GPU_PYTHON) -m benchmarks --machine gpu --repeats 3 $(if $(FORCE),,--resume) $(BENCH_ARGS) gpu_$$part || failed="$$failed $$part"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

gpu-sanitizer: gpu-build
	@failed=; \
	for tool in $(TOOLS); do \
		for begin in $(BEGINS); do \
			if [ $$tool$$begin = initcheckgrow ]; then continue; fi; \
			for what in $(SANITIZED); do \
				run="$$tool $$begin $$what"; began=$$SECONDS; ended=passed; \
				echo "== $$run"; \
				$(GPU_RUN) compute-sanitizer --tool $$tool --error-exitcode 9 $(GPU_PYTHON) tests/gpu/$$what.py \
					$$(if [ $$begin = grow ]; then echo --grow; fi) $(if $(SHARE),--share $(SHARE)) || { ended=failed; failed="$$failed ($$run)"; }; \
				echo "gpu-test sanitizer: $$run $$ended in $$((SECONDS - began)) s"; \
			done; \
		done; \
	done; \
	echo "gpu-test sanitizer: $$([ -z "$$failed" ] && echo passed || echo failed) in $$SECONDS s"; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi
