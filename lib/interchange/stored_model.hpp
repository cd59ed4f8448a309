#pragma once
// A checkpoint as the source of an export.
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// Error naming the first differences unless the checkpoint's parameters are the model's.
ModelSpec spec_of(const CheckpointReader&, const ModelConfig&);
// The type of all its parameters: f32 or f64.
DType stored_dtype(const CheckpointReader&);

}  // namespace trireme
