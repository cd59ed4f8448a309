# Libraries by package; none is vendored. Each can be pointed elsewhere with CMAKE_PREFIX_PATH.
find_package(PkgConfig REQUIRED)

# MPI: what MPI_CXX_COMPILER names; else a module's (an mpicxx outside the system's folders); else
# MPICH, which the tests run on and which other packages must not displace; else any.
if(NOT MPI_CXX_COMPILER)
  find_program(mpicxx_in_path mpicxx NO_CACHE)
  if(mpicxx_in_path AND NOT mpicxx_in_path MATCHES "^(/usr)?/bin/")
    set(MPI_CXX_COMPILER ${mpicxx_in_path} CACHE FILEPATH "MPI compiler wrapper")
  else()
    find_program(MPI_CXX_COMPILER NAMES mpicxx.mpich mpicxx DOC "MPI compiler wrapper")
  endif()
endif()
# Its launcher stands beside it and has the same ending.
if(MPI_CXX_COMPILER AND NOT MPIEXEC_EXECUTABLE)
  get_filename_component(mpi_folder ${MPI_CXX_COMPILER} DIRECTORY)
  string(REGEX MATCH "\\.[a-z]+$" mpi_ending ${MPI_CXX_COMPILER})
  find_program(MPIEXEC_EXECUTABLE NAMES mpiexec${mpi_ending} mpiexec mpirun HINTS ${mpi_folder} DOC "MPI launcher")
endif()
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
if(NOT MPIEXEC_EXECUTABLE)
  message(FATAL_ERROR "No mpiexec beside ${MPI_CXX_COMPILER}: set -DMPIEXEC_EXECUTABLE=/path/to/mpiexec")
endif()

# The serial driver is all that the format needs; a parallel HDF5 brings its own MPI. 1.10.5 is the first
# that says where a chunk lies.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial>=1.10.5 hdf5>=1.10.5)
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::HDF5)
set(CMAKE_REQUIRED_QUIET ON)
check_cxx_source_compiles("#include <H5pubconf.h>
#ifdef H5_HAVE_PARALLEL
#error parallel
#endif
int main() {}" TRIREME_HDF5_IS_SERIAL)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_QUIET)
if(NOT TRIREME_HDF5_IS_SERIAL)
  message(WARNING "HDF5 ${HDF5_VERSION} is a parallel one: it must have been built with the MPI of ${MPI_CXX_COMPILER}. "
    "A serial HDF5 is safer.")
endif()

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Kokkos 3.4 REQUIRED)
if(Kokkos_INCLUDE_DIRS)  # Debian's target has a wrong include path
  set_target_properties(Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Kokkos_INCLUDE_DIRS}")
endif()

# Debian's dnnl config asks for OpenCL's headers, which the CPU engine does not need.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_file(dnnl_version_file NAMES oneapi/dnnl/dnnl_version.h dnnl_version.h HINTS ${DNNL_INCLUDE_DIR} NO_CACHE)
set(DNNL_VERSION "")
if(dnnl_version_file)
  file(STRINGS ${dnnl_version_file} lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  list(JOIN lines "." DNNL_VERSION)
endif()
if(DNNL_VERSION AND DNNL_VERSION VERSION_LESS 2.6)
  message(FATAL_ERROR "oneDNN 2.6 or newer is needed, ${DNNL_INCLUDE_DIR} holds ${DNNL_VERSION}: set CMAKE_PREFIX_PATH")
endif()
add_library(trireme_dnnl INTERFACE)
target_include_directories(trireme_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(trireme_dnnl INTERFACE ${DNNL_LIBRARY})

find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.30)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
# Debian 13's sentencepiece.pc asks for protobuf's headers, which its own header does not.
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h REQUIRED)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
add_library(trireme_sentencepiece INTERFACE)
target_include_directories(trireme_sentencepiece SYSTEM INTERFACE ${SENTENCEPIECE_INCLUDE_DIR})
target_link_libraries(trireme_sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY})

# Debian's library of spdlog needs a younger C++ library than a bundle's targets have.
set(spdlog spdlog::spdlog)
if(TRIREME_BUNDLE)
  set(spdlog spdlog::spdlog_header_only)
endif()
# Chart.js, as one file that a page can hold: it draws what `trireme report` writes. -DCHART_JS=OFF builds without, and
# the subcommand says so.
if(NOT DEFINED CHART_JS OR CHART_JS)
  find_file(CHART_JS NAMES chart.umd.min.js chart.umd.js chart.min.js Chart.min.js REQUIRED
    PATH_SUFFIXES share/javascript/chart.js share/nodejs/chart.js/dist DOC "Chart.js 3.9 or 4 as one file, or OFF")
  set(CHART_JS_FILE ${CHART_JS})
else()
  set(CHART_JS_FILE ${CMAKE_BINARY_DIR}/no_chart.js)
  file(TOUCH ${CHART_JS_FILE})
endif()

add_library(trireme_dependencies INTERFACE)
target_link_libraries(trireme_dependencies INTERFACE MPI::MPI_CXX PkgConfig::HDF5 OpenMP::OpenMP_CXX Kokkos::kokkos
  trireme_dnnl fmt::fmt ${spdlog} nlohmann_json::nlohmann_json CLI11::CLI11 tomlplusplus::tomlplusplus PkgConfig::XXHASH
  trireme_sentencepiece PkgConfig::PCRE2 PkgConfig::UTF8PROC)
message(STATUS "MPI ${MPI_CXX_VERSION} (${MPI_CXX_COMPILER}), HDF5 ${HDF5_VERSION}, Kokkos ${Kokkos_VERSION}, oneDNN ${DNNL_VERSION}")
