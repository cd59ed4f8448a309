#!/bin/sh
# cmake/setup.sh where it has to refuse: an MPI whose ranks do not find each other, a machine on which it may install
# nothing, a library that CMake does not find; and where it has to install nothing. $1: mpicxx, $2: its mpiexec.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wrong() {
  cat "$work/said"
  echo "setup_test: $*"
  exit 1
}

# A build folder that needs no configuring, so that set-up goes straight to the two ranks.
configured() {
  mkdir -p "$work/build"
  printf 'MPI_CXX_COMPILER:FILEPATH=%s\nMPIEXEC_EXECUTABLE:FILEPATH=%s\n' "$1" "$2" > "$work/build/CMakeCache.txt"
  touch "$work/build/Makefile"
  (cd "$source" && pwd) > "$work/build/setup.place"
  sed -n '/^model name/p;/^flags/p' /proc/cpuinfo | sort -u > "$work/build/setup.cpu"
  rm -f "$work/build/hello.ok"
}
setup() { env BUILD="$work/build" ARCH= CUDA= MPI_CXX_COMPILER= HELLO= CHECK= "$@" "$source/cmake/setup.sh" > "$work/said" 2>&1 < /dev/null; }

configured "$1" "$2"
setup || wrong "the MPI of this build was refused"
grep -q "a world of 2" "$work/said" || wrong "no world of two"

# A launcher that starts two programs which know nothing of each other.
printf '#!/bin/sh\nshift 2\n"$@"\n"$@"\n' > "$work/mpiexec"
chmod +x "$work/mpiexec"
configured "$1" "$work/mpiexec"
setup && wrong "two lone ranks were accepted"
grep -q "$1 is broken: $work/mpiexec -n 2 started two programs" "$work/said" || wrong "the broken MPI is not named"
grep -q "make setup MPI_CXX_COMPILER=" "$work/said" || wrong "no way out is named"
[ -f "$work/build/hello.ok" ] && wrong "the failure was remembered as a success"

# A machine with neither CMake nor apt.
mkdir "$work/bin"
for tool in sh dirname mkdir sed sort find cat rm grep cmp tr; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
configured "$1" "$2"
echo "model name: another" > "$work/build/setup.cpu"
setup PATH="$work/bin" && wrong "a build from another kind of CPU was taken as it is"
grep -q "configuring .*another kind of CPU" "$work/said" || wrong "the other CPU was not noticed"

rm -rf "$work/build"
setup PATH="$work/bin" && wrong "set-up without CMake and apt succeeded"
[ "$(grep -c "apt-get install -y .*libmpich-dev .*libsentencepiece-dev" "$work/said")" -eq 1 ] || wrong "no single apt line"
[ "$(grep -c "spack install .*hdf5~mpi .*onednn" "$work/said")" -eq 1 ] || wrong "no single Spack line"

# Where everything is there, as for the build that this test is of, nobody is asked to install.
mkdir "$work/guard"
for tool in apt-get apt sudo; do
  printf '#!/bin/sh\necho "%s $*" >> "%s/called"\nexit 1\n' "$tool" "$work" > "$work/guard/$tool"
  chmod +x "$work/guard/$tool"
done
rm -rf "$work/build"
setup PATH="$work/guard:$PATH" PRESET=default CUDA=OFF MPI_CXX_COMPILER="$1" || wrong "a new build folder was not configured"
setup PATH="$work/guard:$PATH" CUDA=OFF || wrong "a build folder that needs nothing was refused"
[ -f "$work/called" ] && wrong "called on a machine where everything is there: $(cat "$work/called")"

# Each library that CMake's files ask for, where CMake finds none: the package is named, though dpkg says that it is
# installed. CMake is the real one and sees a project of that one statement.
mkdir -p "$work/lacking" "$work/mini/nowhere"
cat > "$work/lacking/cmake" << EOF
#!/bin/sh
rm -rf "$work/mini/build"
PKG_CONFIG_LIBDIR=$work/mini/nowhere exec $(command -v cmake) -S "$work/mini" -B "$work/mini/build" -DCMAKE_MAKE_PROGRAM=$(command -v make) -DCMAKE_CXX_COMPILER=$(command -v c++) \\
  -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF \\
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=OFF
EOF
printf '#!/bin/sh\necho "install ok installed"\n' > "$work/lacking/dpkg-query"
printf '#!/bin/sh\n' > "$work/lacking/apt-get"
chmod +x "$work/lacking"/*
# $1: a statement of CMake; the rest of its project is $2 before it.
lacking() {
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(mini LANGUAGES NONE)\n%s\n%s\n' "$2" "$1" > "$work/mini/CMakeLists.txt"
  rm -rf "$work/build"
  setup PATH="$work/lacking:$PATH" && wrong "configured without $1"
}
sed -n '/^ *find_package(.*REQUIRED/p; /^ *find_\(path\|library\)(.*REQUIRED/p; /^ *pkg_[a-z_]*(.*REQUIRED/p' \
  "$source"/cmake/*.cmake "$source/tests/CMakeLists.txt" | grep -v -i cuda > "$work/statements"
[ "$(wc -l < "$work/statements")" -ge 15 ] || wrong "CMake's files ask for $(wc -l < "$work/statements") libraries"
while read -r statement; do
  before=
  case $statement in pkg_*) before="include(FindPkgConfig)\nset(PKG_CONFIG_EXECUTABLE $(command -v pkg-config))\nset(PKG_CONFIG_FOUND ON)" ;; esac
  lacking "$statement" "$(printf "$before")"
  grep -q "does not find what these packages hold: [a-z]" "$work/said" || wrong "no package is named for $statement"
  grep -q "hold:.* ninja-build" "$work/said" && wrong "the project of $statement did not start"
done < "$work/statements"
named() {
  lacking "$1" "${3:-}"
  grep -q "does not find what these packages hold: $2 \$" "$work/said" || wrong "$2 is not what is named for $1"
}
named "find_package(fmt REQUIRED)" libfmt-dev
named "find_package(nlohmann_json REQUIRED)" nlohmann-json3-dev # CMake breaks this line
named "find_library(DNNL_LIBRARY dnnl REQUIRED)" libdnnl-dev
named "target_link_libraries(mini PRIVATE GTest::gmock)" libgmock-dev \
  "enable_language(CXX)
file(WRITE \${CMAKE_BINARY_DIR}/mini.cpp \"\")
add_library(mini \${CMAKE_BINARY_DIR}/mini.cpp)"
# A failure that no package mends is not reported as one.
lacking "message(FATAL_ERROR elsewhere)" ""
grep -q "not for want of a package" "$work/said" || wrong "a failure of another kind is reported as a missing package"

# A toolkit without cuDNN's frontend, first with no network, then with one. CMake and pip are stand-ins.
mkdir "$work/stand-in"
python3=$(command -v python3)
printf '#!/bin/sh\necho "-- CUDA: 13"\n' > "$work/stand-in/cmake"
frontend() {
  configured "$1" "$2"
  echo "CUDNN_FRONTEND_INCLUDE_DIR:PATH=CUDNN_FRONTEND_INCLUDE_DIR-NOTFOUND" >> "$work/build/CMakeCache.txt"
  echo "model name: another" > "$work/build/setup.cpu"
  chmod +x "$work/stand-in/"*
  setup PATH="$work/stand-in:$PATH" XDG_CACHE_HOME="$work/cache" CUDNN_FRONTEND_DIR= || wrong "set-up failed"
}
printf '#!/bin/sh\necho "ERROR: no route to host" >&2\nexit 1\n' > "$work/stand-in/python3"
frontend "$1" "$2"
grep -q "no cudnn-frontend: ERROR: no route to host" "$work/said" || wrong "the failed download is not reported"
[ -z "$(find "$work/cache" -name '*.h' 2> /dev/null)" ] || wrong "a failed download left headers"

mkdir -p "$work/wheel/include" && touch "$work/wheel/include/cudnn_frontend.h"
cat > "$work/stand-in/python3" << EOF
#!/bin/sh
[ "\$2" = pip ] || exec $python3 "\$@"
while [ "\$1" != -d ]; do shift; done
cd "$work/wheel" && exec $python3 -m zipfile -c "\$2/frontend.whl" include
EOF
frontend "$1" "$2"
[ "$(find "$work/cache" -path '*/include/cudnn_frontend.h' | wc -l)" -eq 1 ] || wrong "no headers after the download"
frontend "$1" "$2"
grep -q "fetching" "$work/said" && wrong "fetched what is there"

echo "setup_test: good"
