# The check that this CPU can run what was compiled. It comes before all vector code, so its file is
# compiled for any x86-64 and its objects go into every program (a constructor in an archive would
# be left out).
set(list_file ${CMAKE_BINARY_DIR}/generated/cpu_features.inc)
file(WRITE ${CMAKE_BINARY_DIR}/generated/empty.cpp "")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${arch_flags} -dM -E ${CMAKE_BINARY_DIR}/generated/empty.cpp
  OUTPUT_VARIABLE macros RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} does not know -march=${TRIREME_ARCH}: use a newer compiler or another TRIREME_ARCH")
endif()

# Every extension that changes what a compiler may emit on its own, as __builtin_cpu_supports names them.
set(features sse3 ssse3 sse4.1 sse4.2 popcnt lzcnt movbe bmi bmi2 f16c fma avx avx2 avxvnni gfni vaes vpclmulqdq
  sse4a fma4 xop avx512f avx512cd avx512bw avx512dq avx512vl avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512bitalg
  avx512vpopcntdq avx512bf16 avx512fp16)
set(text "")
foreach(feature IN LISTS features)
  string(TOUPPER ${feature} macro)
  string(REPLACE "." "_" macro ${macro})
  if(macros MATCHES "#define __${macro}__ 1")
    set(probe ${CMAKE_BINARY_DIR}/generated/probe.cpp)
    file(WRITE ${probe} "int probe() { return __builtin_cpu_supports(\"${feature}\"); }\n")
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -fsyntax-only ${probe} RESULT_VARIABLE unknown ERROR_QUIET)
    if(NOT unknown)
      string(APPEND text "if (!__builtin_cpu_supports(\"${feature}\")) return \"${feature}\";\n")
    endif()
  endif()
endforeach()
file(CONFIGURE OUTPUT ${list_file} CONTENT "${text}" @ONLY)

add_library(trireme_cpu OBJECT kernels/host/cpu.cpp)
target_include_directories(trireme_cpu PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(trireme_cpu PRIVATE TRIREME_ARCH="${TRIREME_ARCH}")
target_link_libraries(trireme_cpu PRIVATE trireme_warnings)
