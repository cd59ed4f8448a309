#pragma once
// Check for instruction set extensions that this build uses and older CPUs lack. Every program
// performs the check before main and before any vector code runs. If an extension is missing, the
// program prints a message that names it and exits with code 1.

namespace trireme {

// Returns the name of the first extension that this build uses and this machine lacks, or null if
// no extension is missing. Never allocates memory.
const char* missing_cpu_feature() noexcept;

// Returns the architecture of the build: native, x86-64-v3 or x86-64-v4.
const char* build_architecture() noexcept;

}  // namespace trireme
