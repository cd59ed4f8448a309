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

.PHONY: help run setup setup-slurm setup-clang build test test-full test-builds test-asan mutants bench predict test-hf gpu-test gpu-bench gpu-report bundle check docs format install clean
.NOTPARALLEL:

help:
	@echo 'Targets:'
	@echo '  make run          Set up, build, train a small GPT on this source tree for a minute and print a sample'
	@echo '  make setup        Install missing packages (apt), configure the build and start two MPI ranks as a test'
	@echo '  make build        Build build/trireme and the token file of the quick start'
	@echo '  make install      Install to PREFIX, with decks, job scripts and a modulefile (for x86-64 CPUs with AVX2)'
	@echo '  make bundle       Build build/trireme-VERSION-x86_64.tar.xz, for machines with no dependencies but CUDA libraries'
	@echo '  make clean        Remove the build directory'
	@echo
	@echo 'Tests:'
	@echo '  make test         Set up, build and run the fast tests'
	@echo '  make test-full    Also run the slow tests (every grid and setting, an installation): about two hours on 2 cores'
	@echo '  make test-builds  Test clean builds: a bundle, Debian without CUDA, containers'
	@echo '  make test-asan    Run the fast tests with AddressSanitizer and UBSan on 2 and 4 ranks'
	@echo '                    (SUITES="kernels io" runs only these suites)'
	@echo '  make test-hf      Compare imported and exported models with transformers and torch, in a virtual environment'
	@echo '                    (REQUIRED=yes fails if torch cannot be installed; ONLY=REGEX selects tests)'
	@echo '  make gpu-test     Test the cuda backend on the GPU of this machine; does nothing without a GPU'
	@echo '  make mutants      Insert small errors into the source, one at a time, and check that the tests find them'
	@echo '  make check        Check formatting, layer order of includes, unique type names, that headers compile alone, docs/deck.md and docs/reference/commands.md'
	@echo '  make setup-slurm  Like setup, and install Slurm and munge to test job scripts; starts no service'
	@echo '  make setup-clang  Like setup, and install clang 19 and CUDA 12 headers to compile device kernels with a second compiler'
	@echo
	@echo 'Performance:'
	@echo '  make bench        Measure step time, memory and throughput, and print tables'
	@echo '  make gpu-bench    Measure the same on one NVIDIA GPU, by kernel class, with torch for comparison: 8 minutes'
	@echo '  make gpu-report   Check new features on one NVIDIA GPU and measure them: 12 minutes; a second call resumes'
	@echo '  make predict      Calibrate, predict step times, measure them and update docs/scale.md: half an hour on 2 cores'
	@echo
	@echo 'Development:'
	@echo '  make format       Format all sources with clang-format'
	@echo '  make docs         Build the documentation as a site with search in build/docs/site; installs Sphinx into build/docs/venv'
	@echo
	@echo 'Variables:'
	@echo '  ARCH=native|x86-64-v3|x86-64-v4  Instruction set to compile for'
	@echo '  CUDA=AUTO|ON|OFF                 Build the cuda backend (AUTO: if a CUDA toolkit is found)'
	@echo '  MPI_CXX_COMPILER=/path/mpicxx    MPI compiler wrapper'
	@echo '  CHART_JS=FILE|OFF                Chart.js for HTML reports: a local file, or none'
	@echo '  BUILD=DIR  PREFIX=DIR  JOBS=N    Build directory, installation directory, parallel jobs'

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

gpu-report: build
	@cmake --build $(BUILD) -j $(JOBS) --target gpu_test bench_gpu
	@tests/gpu/report.py $(BUILD) --record $(BUILD)/gpu_report.json

bundle:
	@BUILD=build/bundle-build PRESET=bundle ARCH=$(or $(ARCH),x86-64-v3) cmake/setup.sh
	@cmake --build build/bundle-build -j $(JOBS) --target trireme gpu_test bench_gpu
	@cmake/quickstart_tokens.sh build/bundle-build
	@cmake/bundle.py build/bundle-build build

check: export CHECK = yes
check: setup
	@tests/check.sh $(BUILD) $(JOBS)

docs:
	@cmake/docs/build.py $(BUILD)

format:
	@tests/format.sh -i

install:
	@BUILD=build/install-v3 PRESET=install ARCH=$(or $(ARCH),x86-64-v3) cmake/setup.sh
	@cmake --build build/install-v3 -j $(JOBS) --target trireme
	@cmake --install build/install-v3 --prefix $(abspath $(PREFIX))

clean:
	rm -rf $(BUILD)
