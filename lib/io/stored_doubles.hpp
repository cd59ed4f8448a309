#pragma once
// Reads parameters of a checkpoint as double.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Returns the type of all parameters in the checkpoint. Throws Error if there are none, or if the
// types differ.
DType stored_type(const CheckpointReader&);
// Reads elements [begin, begin + count) of a parameter and converts them to double.
std::vector<double> read_doubles(CheckpointReader&, const std::string& param, std::int64_t begin,
                                 std::int64_t count);

}  // namespace trireme
