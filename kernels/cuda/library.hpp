#pragma once
// libtrireme_cuda.so: all code that calls the CUDA toolkit, cuDNN and NCCL, opened when a device is
// asked for and answers, so that a process without one loads none of their 250 MB. It takes what it
// needs of the rest from the program. Searched beside the program, in lib/ there, in ../lib and
// ../lib/trireme, and beside libtrireme.so.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/device.hpp"

namespace trireme::cuda {

// What the file offers, at its symbol `trireme_cuda`; each member is what device.hpp says of its
// namesake.
struct Library {
  const char* build;  // stays first: that of another build must be readable
  int (*devices)(std::string* why);
  std::string (*device_identity)(int device);
  int (*architecture)(int device);
  std::size_t (*device_bytes)(int device);
  std::string (*libraries)();
  std::unique_ptr<Backend> (*open)(const CudaChoice&);
  void (*start_timing)(Backend&);
  std::vector<OperationTime> (*stop_timing)(Backend&);
  std::int64_t (*fused_products)(Backend&);
};

// Opens the file, once; null where that fails, and `why` gets a sentence: which file, what is wrong
// with it, what to do.
const Library* library(std::string* why);
std::string library_file();  // where it is; throws Error when it is not beside the program
// The same of a file that is named; its `build` must be this one's.
const Library* open_library(const std::string& file, std::string_view build, std::string* why);

// Address of a symbol of the file; null when it has none or cannot be opened.
void* library_symbol(const char* name);

}  // namespace trireme::cuda
