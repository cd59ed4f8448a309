#pragma once
// The header of numpy's .npy: magic, version, length, and a dictionary in Python's words. Libraries
// for it read the array whole, which may be larger than memory.
#include <cstdint>
#include <string>

#include "lib/data/inputs.hpp"

namespace trireme {

struct NpyHeader {
  std::string type;             // as "<u2"
  std::int64_t count = 0;       // numbers
  std::int64_t data_begin = 0;  // byte offset
};

// Throws Error naming the file when it is no array of one dimension, or has another size than its
// header says.
NpyHeader read_npy_header(InputFile&);

}  // namespace trireme
