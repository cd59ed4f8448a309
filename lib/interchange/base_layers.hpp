#pragma once
// Base weights in peft's adapter files. If an embedding or a head has an adapter, peft also stores
// its base weight. This weight must be that of the base model, because Trireme stores only the
// adapter.
#include <map>
#include <string>

#include "lib/interchange/safetensors.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// Removes these base weights from `tensors`, which are tensors of the file by name. `spec` is the
// base model with its adapters. Throws Error, naming the file and the tensor, if a base weight
// differs from the weight in the checkpoint `base` by more than the rounding to 16 bits.
void check_and_remove_base_weights(std::map<std::string, SafeTensor>& tensors,
                                   const ModelSpec& spec, const SafetensorsFile&,
                                   CheckpointReader& base);

}  // namespace trireme
