#pragma once
// Reads the header of numpy's .npy files. Existing libraries for this format would read the whole
// array, which may be larger than memory.
#include <cstdint>
#include <string>

#include "lib/corpus/inputs.hpp"

namespace trireme {

// The header of a one-dimensional array.
struct NpyHeader {
  // Element type as numpy writes it, for example "<u2".
  std::string type;
  // Number of array elements.
  std::int64_t count = 0;
  // Byte offset of the first element.
  std::int64_t data_begin = 0;
};

// Reads the header. Throws Error, naming the file, if it does not contain a one-dimensional array
// or if its size differs from the header's.
NpyHeader read_npy_header(InputFile&);

}  // namespace trireme
