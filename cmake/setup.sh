#!/bin/sh
# Makes $BUILD ready to build: configures it, installs packages only when that fails for want of
# them, and ends with two MPI ranks that greet each other. Nothing to do takes a few milliseconds.
#   BUILD PRESET ARCH CUDA MPI_CXX_COMPILER CHART_JS  see the Makefile; CHECK=yes also installs clang-format and python3-venv
#   SLURM=yes installs Slurm and munge, too, for the tests of job scripts, and the tools with which nodes fail in them
#   HELLO=no  leaves the two ranks out, where mpiexec may not run (a login node)
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
PRESET=${PRESET:-default}
log=$BUILD/configure.log

say() { echo "setup: $*"; }
stop() {
  echo "setup: $*" >&2
  exit 1
}

# What is installed, a package a line: name|other name (the first one that this distribution knows), then the words by
# which CMake's log calls what is in it.
packages="
g++ CMAKE_CXX_COMPILER OpenMP OpenMP_CXX
cmake
ninja-build CMAKE_MAKE_PROGRAM
ccache
pkg-config|pkgconf PkgConfig PKG_CONFIG_EXECUTABLE
python3
mpich mpiexec
libmpich-dev MPI MPI_CXX
libhdf5-dev hdf5 hdf5-serial
libdnnl-dev DNNL_INCLUDE_DIR DNNL_LIBRARY
libtrilinos-kokkos-dev|libkokkos-dev Kokkos
libtomlplusplus-dev tomlplusplus
libcli11-dev CLI11
libfmt-dev fmt
libspdlog-dev spdlog
nlohmann-json3-dev nlohmann_json
libxxhash-dev libxxhash
libpcre2-dev libpcre2-8
libutf8proc-dev libutf8proc
libsentencepiece-dev SENTENCEPIECE_INCLUDE_DIR SENTENCEPIECE_LIBRARY
libjs-chart.js CHART_JS
libgtest-dev GTest GTest::gtest GTest::gtest_main
libgmock-dev GTest::gmock GTest::gmock_main
libbenchmark-dev benchmark benchmark::benchmark
hdf5-tools
python3-h5py
python3-jinja2
clang-format
"
spack="gcc@12: cmake@3.25: ninja ccache pkgconf mpich hdf5~mpi onednn kokkos tomlplusplus cli11 fmt spdlog
  nlohmann-json xxhash pcre2 utf8proc sentencepiece googletest benchmark"

installed() { dpkg-query -W -f '${Status}' "$1" 2> /dev/null | grep -q "ok installed"; }

# One of the table's first words, as the package is called here.
name_here() {
  case $1 in *"|"*) ;; *) echo "$1" && return ;; esac # apt-cache takes a second each time
  for knows in installed "apt-cache show"; do
    for name in $(echo "$1" | tr '|' ' '); do
      if $knows "$name" > /dev/null 2>&1; then
        echo "$name"
        return
      fi
    done
  done
  echo "${1%%|*}"
}

missing_packages() {
  echo "$packages" | while read -r choice words; do
    [ -z "$choice" ] && continue
    name=$(name_here "$choice")
    installed "$name" || echo "$name"
  done
}

# The packages of what the log says was not found.
missed_packages() {
  words=$(sed -n '/^--  *Package .* not found$/p; /^--  *No package .* found$/p; /^CMake Error/,$p' "$log" |
    sed '/^Call Stack/,/^$/d; s/[^A-Za-z0-9_:./-]/ /g; s/[.:]* / /g; s/[.:]*$//' | tr ' ' '\n')
  echo "$packages" | while read -r choice names; do
    for name in $names; do
      echo "$words" | grep -Fqx -e "$name" && name_here "$choice"
    done
  done | sort -u | tr '\n' ' '
}

by_hand() {
  missed=$(missed_packages)
  [ "$missed" ] && echo "setup: configuring stopped for want of $missed" >&2
  echo "setup: these packages are missing and cannot be installed from here ($1)." >&2
  echo "On Debian or Ubuntu somebody with root types:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends" $2 >&2
  echo "With Spack nobody needs root:" >&2
  echo "  spack install" $spack "&& spack load" $spack >&2
  echo "CHART_JS=OFF builds without what \`trireme report\` draws with; CHART_JS=/path/to/chart.min.js names it." >&2
  echo "On a cluster, load modules for GCC, CMake, MPI and HDF5 first. Then run make again." >&2
  exit 1
}

# Sets to_install, with package lists brought up to date where we may.
install_missing() {
  command -v apt-get > /dev/null || by_hand "no apt-get" "$(echo "$packages" | sed 's/[| ].*//')"
  to_install=$(missing_packages | tr '\n' ' ')
  [ -z "$to_install" ] && return 1
  root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || by_hand "not root, no sudo" "$to_install"
    sudo -n true 2> /dev/null || { [ -t 0 ] && sudo -v; } || by_hand "not root, sudo refuses" "$to_install"
    root=sudo
  fi
  $root env DEBIAN_FRONTEND=noninteractive apt-get update -q -o DPkg::Lock::Timeout=300 ||
    stop "apt-get update failed; the lines above say why"
  to_install=$(missing_packages | tr '\n' ' ') # the names are known only now
  say "installing with apt: $to_install"
  $root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get install -y -q -o DPkg::Lock::Timeout=300 \
    --no-install-recommends $to_install || stop "apt-get install failed; the lines above say why"
}

cached() { [ -f "$BUILD/CMakeCache.txt" ] && sed -n "s/^$1:[^=]*=//p" "$BUILD/CMakeCache.txt"; }

# CMake watches neither of these.
cpu() { sed -n '/^model name/p;/^flags/p' /proc/cpuinfo | sort -u; }
place() { echo "$PWD"; }

configure() {
  set -- --preset "$PRESET" -B "$BUILD"
  command -v ninja > /dev/null || set -- "$@" -G "Unix Makefiles"
  [ -n "${ARCH:-}" ] && set -- "$@" "-DTRIREME_ARCH=$ARCH"
  [ -n "${CUDA:-}" ] && set -- "$@" "-DTRIREME_CUDA=$CUDA"
  [ -n "${MPI_CXX_COMPILER:-}" ] && set -- "$@" "-DMPI_CXX_COMPILER=$MPI_CXX_COMPILER"
  [ -n "${CHART_JS:-}" ] && set -- "$@" "-DCHART_JS=$CHART_JS"
  [ "$fresh" ] && set -- --fresh "$@"
  cmake "$@" > "$log" 2>&1
}

# cuDNN's C++ frontend, headers alone, into the user's cache; the pinned file names version and checksum.
# Without it everything works, attention on NVIDIA GPUs with a slower kernel.
fetch_frontend() {
  pinned=cmake/cudnn_frontend.txt
  version=$(sed -n 's/^nvidia-cudnn-frontend==\([0-9.]*\).*/\1/p' $pinned)
  place=${XDG_CACHE_HOME:-${HOME:-$PWD/$BUILD}/.cache}/trireme/cudnn-frontend-$version
  [ -f "$place/include/cudnn_frontend.h" ] && return 1
  say "fetching cudnn-frontend $version"
  work=$(mktemp -d "$BUILD/frontend.XXXXXX")
  # One wheel for all machines, so one checksum: its headers depend on neither Python nor CPU.
  if python3 -m pip download -q --disable-pip-version-check --retries 1 --timeout 15 --no-deps --only-binary=:all: \
    --platform manylinux_2_28_x86_64 --python-version 3.11 --implementation cp --abi cp311 --require-hashes \
    -r $pinned -d "$work" > "$BUILD/frontend.log" 2>&1 &&
    python3 -m zipfile -e "$work"/*.whl "$work/all" >> "$BUILD/frontend.log" 2>&1 &&
    mkdir -p "$place" && cp -R "$work/all/include" "$place/new.$$" && mv -T "$place/new.$$" "$place/include"; then
    rm -rf "$work"
    return 0
  fi
  rm -rf "$work" "$place/new.$$"
  say "no cudnn-frontend: $(tail -n 1 "$BUILD/frontend.log")"
  say "attention on NVIDIA GPUs takes our own, slower kernel. With a network (and python3-pip): touch CMakeLists.txt"
  say "and make again; or CUDNN_FRONTEND_DIR=/path/to/cudnn-frontend make"
  return 1
}

hello() {
  mpicxx=$(cached MPI_CXX_COMPILER)
  mpiexec=$(cached MPIEXEC_EXECUTABLE)
  name="the MPI of $mpicxx"
  "$mpicxx" -o "$BUILD/hello" cmake/hello.cpp > "$BUILD/hello.log" 2>&1 || {
    cat "$BUILD/hello.log" >&2
    stop "$name does not compile a program of ten lines. Name another one: make setup MPI_CXX_COMPILER=/path/to/mpicxx"
  }
  timeout 60 "$mpiexec" -n 2 "$BUILD/hello" > "$BUILD/hello.log" 2>&1 < /dev/null
  code=$?
  if [ $code -eq 0 ] && grep -q "a world of 2" "$BUILD/hello.log"; then
    say "two ranks: $(grep "a world of 2" "$BUILD/hello.log" | head -1)"
    return
  fi
  cat "$BUILD/hello.log" >&2
  other="Name another MPI with: make setup MPI_CXX_COMPILER=/path/to/mpicxx (its mpiexec must stand beside it)"
  if grep -q "a world of 1" "$BUILD/hello.log"; then
    stop "$name is broken: $mpiexec -n 2 started two programs that each believe to be alone. Library and launcher do
not belong together, or the package is (Ubuntu 24.04's mpich is). $other,
for example Open MPI: apt-get install libopenmpi-dev openmpi-bin, then MPI_CXX_COMPILER=/usr/bin/mpicxx.openmpi"
  fi
  stop "$name is broken: $mpiexec -n 2 ended with code $code (124: it hung for 60 s). $other.
Where mpiexec may not run, as on a login node: make setup HELLO=no"
}

mkdir -p "$BUILD" || stop "cannot write $BUILD"
fresh=
reason=
given_but_not_cached() { [ -n "$2" ] && [ "$2" != "$(cached "$1")" ]; }
if [ ! -f "$BUILD/CMakeCache.txt" ] || { [ ! -f "$BUILD/build.ninja" ] && [ ! -f "$BUILD/Makefile" ]; }; then
  reason="new"
elif [ -f "$BUILD/setup.place" ] && ! place | cmp -s - "$BUILD/setup.place"; then
  reason="the folder moved"
  fresh=yes
elif given_but_not_cached MPI_CXX_COMPILER "${MPI_CXX_COMPILER:-}"; then
  reason="MPI_CXX_COMPILER=$MPI_CXX_COMPILER"
  fresh=yes # CMake keeps the old MPI's libraries otherwise
elif [ ! -f "$BUILD/setup.cpu" ]; then
  reason="configured by hand"
elif ! cpu | cmp -s - "$BUILD/setup.cpu"; then
  reason="this is another kind of CPU than at the last build" # a native build's options change with it
elif [ -n "$(find CMakeLists.txt cmake tests/CMakeLists.txt -name '*.sh' -prune -o -type f -newer "$BUILD/setup.cpu" -print)" ]; then
  reason="CMake files changed" # packages may be needed that were not before
elif given_but_not_cached TRIREME_ARCH "${ARCH:-}"; then
  reason="ARCH=$ARCH"
elif given_but_not_cached TRIREME_CUDA "${CUDA:-}"; then
  reason="CUDA=$CUDA"
elif [ -n "${CUDNN_FRONTEND_DIR:-}" ] && [ "$(cached CUDNN_FRONTEND_INCLUDE_DIR)" = CUDNN_FRONTEND_INCLUDE_DIR-NOTFOUND ]; then
  reason="CUDNN_FRONTEND_DIR=$CUDNN_FRONTEND_DIR"
fi
if [ "$fresh" ]; then
  ARCH=${ARCH:-$(cached TRIREME_ARCH)}
  CUDA=${CUDA:-$(cached TRIREME_CUDA)}
  MPI_CXX_COMPILER=${MPI_CXX_COMPILER:-$(cached MPI_CXX_COMPILER)}
  [ -x "$MPI_CXX_COMPILER" ] || MPI_CXX_COMPILER=
fi

if [ "$reason" ]; then
  say "configuring $BUILD ($reason)"
  if ! configure; then
    [ "$reason" = new ] && fresh=yes # nothing in the cache is anybody's choice
    if ! install_missing || ! configure; then
      cat "$log" >&2
      # The next try starts anew, unless somebody configured this folder by hand.
      if [ "$fresh" ] || [ -f "$BUILD/setup.place" ]; then rm -f "$BUILD/CMakeCache.txt"; fi
      missed=$(missed_packages)
      [ "$missed" ] && stop "configuring failed: CMake does not find what these packages hold: $missed
They are installed. The lines above say where CMake looked; CMAKE_PREFIX_PATH, CXX or a loaded module may lead it elsewhere.
Where their files were removed, root types: apt-get install --reinstall $missed"
      stop "configuring failed, and not for want of a package that $0 knows; the lines above say why"
    fi
  fi
  if [ "$(cached CUDNN_FRONTEND_INCLUDE_DIR)" = CUDNN_FRONTEND_INCLUDE_DIR-NOTFOUND ] && fetch_frontend; then
    fresh=
    configure || {
      cat "$log" >&2
      stop "configuring failed after cudnn-frontend was fetched; the lines above say why"
    }
  fi
  grep -E "^-- (MPI [0-9]|CUDA: )|Warning|is a parallel" "$log"
  rm -f "$BUILD/hello.ok"
  cpu > "$BUILD/setup.cpu"
  place > "$BUILD/setup.place"
fi

if [ "${CHECK:-}" ]; then
  packages=$(
    command -v clang-format-14 > /dev/null || command -v clang-format > /dev/null || echo clang-format
    python3 -c 'import ensurepip' 2> /dev/null || echo python3-venv
    python3 -c 'import jinja2' 2> /dev/null || /usr/bin/python3 -c 'import jinja2' 2> /dev/null || echo python3-jinja2
  )
  [ "$packages" ] && install_missing
fi

# Slurm's packages start services, which nobody asked for: tests start their own.
if [ "${SLURM:-}" ] && ! { command -v srun && command -v faketime && PATH=$PATH:/usr/sbin command -v slurmctld && PATH=$PATH:/usr/sbin command -v ip; } > /dev/null; then
  packages="slurm-wlm
munge
iproute2
faketime"
  policy=/usr/sbin/policy-rc.d
  root=$([ "$(id -u)" -eq 0 ] || echo sudo)
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' | $root tee $policy > /dev/null && $root chmod +x $policy && ours=yes; }
  (install_missing)
  code=$?
  [ "${ours:-}" ] && $root rm -f $policy
  [ $code -eq 0 ] || exit $code
fi

if [ ! -f "$BUILD/hello.ok" ] && [ "${HELLO:-}" != no ]; then
  hello
  : > "$BUILD/hello.ok"
fi
exit 0
