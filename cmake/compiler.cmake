# Compile options. Kernels get -O3, the rest -O2: half the compile time for code that only calls them.
set(TRIREME_ARCH native CACHE STRING "CPU to build for: native, x86-64-v3 or x86-64-v4")
set_property(CACHE TRIREME_ARCH PROPERTY STRINGS native x86-64-v3 x86-64-v4)
if(NOT TRIREME_ARCH MATCHES "^(native|x86-64-v3|x86-64-v4)$")
  message(FATAL_ERROR "TRIREME_ARCH is \"${TRIREME_ARCH}\": use native, x86-64-v3 or x86-64-v4")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  message(FATAL_ERROR "Trireme needs GCC 11 or newer, found ${CMAKE_CXX_COMPILER_VERSION}: set CXX or load a compiler module")
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")

# Native is spelled out, so that moving to another CPU changes the command lines: Ninja then
# compiles again what it must, and ccache never mixes two machines.
set(arch_flags -march=${TRIREME_ARCH})
if(TRIREME_ARCH STREQUAL "native" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native "-###" -E -x c++ /dev/null
    ERROR_VARIABLE driver OUTPUT_QUIET)
  string(REGEX MATCHALL "[ \"]-m[a-z0-9][-=.a-z0-9]*" spelled "${driver}")
  list(TRANSFORM spelled REPLACE "^[ \"]" "")
  list(FILTER spelled EXCLUDE REGEX "^-march=native$")
  if(spelled MATCHES "-march=")
    list(REMOVE_DUPLICATES spelled)
    set(arch_flags ${spelled})
  endif()
endif()
if(NOT TRIREME_ARCH STREQUAL "x86-64-v3")
  list(APPEND arch_flags -mprefer-vector-width=512)
endif()

add_library(trireme_warnings INTERFACE)
target_compile_options(trireme_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror;-Werror=all-warnings>)

add_library(trireme_options INTERFACE)
target_link_libraries(trireme_options INTERFACE trireme_warnings)
target_compile_options(trireme_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-fno-semantic-interposition;${arch_flags}>)

option(TRIREME_SANITIZE "AddressSanitizer and UBSan; an error ends the program" OFF)
if(TRIREME_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # GCC warns of std::regex under -fsanitize where nothing is uninitialized.
  target_compile_options(trireme_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${sanitizers};-Wno-maybe-uninitialized>)
  target_link_options(trireme_options INTERFACE ${sanitizers})
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # What one clone has compiled serves another: paths below the source tree count from the build directory.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()
