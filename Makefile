# Everything a user or developer types. CMake does the work; cmake/setup.sh brings what it needs.
# ARCH, CUDA, MPI_CXX_COMPILER and CHART_JS stay as they are in $(BUILD) until given again.
BUILD = build
PREFIX = $(HOME)/.local
JOBS = $(shell nproc)
export BUILD ARCH CUDA MPI_CXX_COMPILER CHART_JS PRESET HELLO

trireme = $(BUILD)/trireme
cached = $(shell sed -n 's/^$(1):[^=]*=//p' $(BUILD)/CMakeCache.txt)
mpiexec = $(call cached,MPIEXEC_EXECUTABLE)
# The quick start on 4 ranks: its deck runs on any grid up to 2 x 2 x 2.
quickstart_grid = parallel.pipe=2 parallel.seq=2 zero.stage=3
space := $(subst ,, )
# Open MPI refuses root and more ranks than cores unless told otherwise; others do not read these.
export OMPI_ALLOW_RUN_AS_ROOT = 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1
export OMPI_MCA_rmaps_base_oversubscribe = 1
export PRTE_MCA_rmaps_default_mapping_policy = :oversubscribe

.PHONY: help run setup setup-slurm setup-clang build test test-full test-builds test-asan mutants bench predict test-hf gpu-test gpu-bench bundle check format install clean
.NOTPARALLEL:

help:
	@echo 'make run        set up, build, train a small GPT on this source tree for a minute, show a sample'
	@echo 'make test       set up, build and run all fast tests'
	@echo
	@echo 'make setup      install what is missing (apt), configure, try two MPI ranks'
	@echo 'make setup-slurm  Slurm and munge too, for the tests of job scripts; starts no service'
	@echo 'make setup-clang  clang 19 and CUDA 12'\''s headers, for a second compiler'\''s view of the device kernels in make test-full'
	@echo 'make build      build/trireme and the quick start'\''s token file'
	@echo 'make test-full  the slow tests too: every grid and setting, an install; an hour or more on 2 cores'
	@echo 'make test-builds  what compiles the tree anew: a bundle, a bare Debian without CUDA, containers'
	@echo 'make test-asan  run the fast tests under AddressSanitizer and UBSan, on 2 and 4 ranks; SUITES="kernels io" runs those alone'
	@echo 'make test-hf    compare imported and exported models with transformers and torch, in a virtual environment;'
	@echo '                REQUIRED=yes fails where torch cannot be installed instead of skipping'
	@echo 'make mutants    small wrong edits, each of which a test must find, and a few that none may'
	@echo 'make bench      step time, memory and throughput as tables'
	@echo 'make predict    calibrate, predict the times of steps, then measure them; half an hour on 2 cores'
	@echo 'make gpu-bench  the same on one NVIDIA GPU, by kernel class, beside torch; 8 minutes'
	@echo 'make gpu-test   the cuda backend on this machine'\''s GPU; without one it says so and ends'
	@echo 'make bundle     build/trireme-VERSION-x86_64.tar.xz: runs where there is nothing but CUDA'\''s libraries'
	@echo 'make check      format, layers, types of one name, every header alone, docs in step with the deck'
	@echo 'make format     clang-format everything'
	@echo 'make install    PREFIX=DIR: for any CPU with AVX2 (x86-64-v3), with decks, job scripts, modulefile'
	@echo 'make clean      remove what was built'
	@echo
	@echo 'Options: ARCH=native|x86-64-v3|x86-64-v4  CUDA=AUTO|ON|OFF  MPI_CXX_COMPILER=/path/mpicxx  CHART_JS=FILE|OFF  BUILD=DIR  JOBS=N'

setup:
	@cmake/setup.sh

setup-slurm: setup
	@SLURM=yes cmake/setup.sh
	@tests/jobs/cluster.sh try

setup-clang: setup
	@tests/cuda/kernels/clang_setup.sh $(BUILD)

build: setup
	@cmake --build $(BUILD) -j $(JOBS) --target trireme
	@cmake/quickstart_tokens.sh $(BUILD)

run: build
	$(mpiexec) -n 4 $(trireme) train inputs/quickstart.toml $(quickstart_grid) --run-dir $(BUILD)/quickstart --overwrite
	$(trireme) evaluate $(BUILD)/quickstart
	$(trireme) generate $(BUILD)/quickstart --prompt '#include ' --tokens 400 --temperature 0.8 --seed 1

test: build
	@cmake --build $(BUILD) -j $(JOBS)
	@tests/run.sh $(BUILD) $(JOBS) -L fast

test-full: build
	@cmake --build $(BUILD) -j $(JOBS) --target all bench_programs
	@tests/run.sh $(BUILD) $(JOBS) -LE builds

test-builds: build
	@tests/run.sh $(BUILD) $(JOBS) -L builds

test-asan:
	@BUILD=build/asan PRESET=asan CUDA=OFF cmake/setup.sh
	@cmake --build build/asan -j $(JOBS) $(if $(SUITES),--target $(SUITES:%=%_test))
	@tests/run.sh build/asan $(JOBS) -L fast -LE scripts $(if $(SUITES),-R '^($(subst $(space),|,$(SUITES)))_test')

test-hf: build
	@cmake --build $(BUILD) -j $(JOBS) --target hf_logits hf_prompts
	@tests/hf/run.py $(BUILD) $(if $(ONLY),--only '$(ONLY)') $(if $(REQUIRED),--required)

mutants: setup
	@tests/mutants/run.py $(BUILD)

bench: build
	@cmake --build $(BUILD) -j $(JOBS) --target bench_programs
	@tests/bench/run.py $(BUILD)

gpu-test: build
	@cmake --build $(BUILD) -j $(JOBS) --target gpu_test
	@tests/gpu/run.py $(BUILD) $(GPU_TEST)

predict: build
	@cmake --build $(BUILD) -j $(JOBS) --target bench_deck_step
	@tests/predict/run.py $(BUILD) --write docs/scale.md

gpu-bench: build
	@cmake --build $(BUILD) -j $(JOBS) --target bench_gpu
	@tests/bench/gpu.py $(BUILD) --record $(BUILD)/gpu_bench.json

bundle:
	@BUILD=build/bundle-build PRESET=bundle ARCH=$(or $(ARCH),x86-64-v3) cmake/setup.sh
	@cmake --build build/bundle-build -j $(JOBS) --target trireme gpu_test bench_gpu
	@cmake/quickstart_tokens.sh build/bundle-build
	@cmake/bundle.py build/bundle-build build

check: export CHECK = yes
check: setup
	@tests/check.sh $(BUILD) $(JOBS)

format:
	@tests/format.sh -i

install:
	@BUILD=build/install-v3 PRESET=install ARCH=$(or $(ARCH),x86-64-v3) cmake/setup.sh
	@cmake --build build/install-v3 -j $(JOBS) --target trireme
	@cmake --install build/install-v3 --prefix $(abspath $(PREFIX))

clean:
	rm -rf $(BUILD)
