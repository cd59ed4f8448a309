#pragma once
// A build uses instructions that older CPUs lack. Every program checks for them before main and
// before any vector code: it ends with exit code 1 and a message that names the extension.

namespace trireme {

// The first extension this build uses and this machine lacks, or null. Never allocates.
const char* missing_cpu_feature() noexcept;

// What the build was made for: native, x86-64-v3 or x86-64-v4.
const char* build_architecture() noexcept;

}  // namespace trireme
