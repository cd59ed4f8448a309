#pragma once
// Adds the parameters of adapters to a model.
#include "lib/model/spec.hpp"

namespace trireme {

// Adds the adapters that `spec.adapter` describes, and freezes all other parameters except those in
// AdapterConfig::also_train. Throws Error, naming the pattern, if a pattern matches nothing, or if
// the model cannot have an adapter that the settings describe.
void add_adapters(ModelSpec& spec);

}  // namespace trireme
