#pragma once
// Loader of libtrireme_cuda.so, the shared object with all code that calls the CUDA toolkit, cuDNN
// and NCCL. These libraries take 250 MB. The program opens libtrireme_cuda.so only if a device is
// requested and answers, so that other processes do not load the libraries. libtrireme_cuda.so uses
// functions of the program that opens it. The loader searches for the file in the program's folder,
// in lib/, ../lib and ../lib/trireme relative to that folder, and in the folder of libtrireme.so.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/device.hpp"

namespace trireme::cuda {

// Function table of libtrireme_cuda.so. Its symbol `trireme_cuda` returns the table. device.hpp
// describes each function, under a name that also contains `cuda`.
struct Library {
  // Text that identifies the build. It must remain the first member, so that the text can be read
  // from the file of any other build.
  const char* build;
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

// Opens libtrireme_cuda.so on the first call. If that fails, returns null and sets `why` to a
// sentence that names the file, the problem and the remedy.
const Library* library(std::string* why);
// Returns the path of libtrireme_cuda.so. Throws Error if none of the folders contains the file.
std::string library_file();
// Opens `file` in place of the default libtrireme_cuda.so. Returns null and sets `why` to the
// reason if the file cannot be opened or if its `build` differs from the argument.
const Library* open_library(const std::string& file, std::string_view build, std::string* why);

// Returns the address of a symbol in libtrireme_cuda.so. Returns null if the symbol does not exist
// or the file cannot be opened.
void* library_symbol(const char* name);

}  // namespace trireme::cuda
