#pragma once
// Decides which products and parameters an adapter file trains.
#include <string>

#include "lib/interchange/adapter_config.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Returns the settings with patterns for the products that have adapters in the file, with their
// ranks, and with the parameters that are trained as a whole. `model` is the base model, and
// `config` is the path of adapter_config.json. Throws Error, naming a file, if the configuration
// and the tensors disagree, or if Trireme does not have such an adapter.
AdapterConfig with_products(AdapterConfig, const AdapterTargets&, const ModelConfig& model,
                            const std::string& config, const SafetensorsFile&);

}  // namespace trireme
