#pragma once
#include <filesystem>
#include <string>

namespace trireme {

// Returns advice for a path that does not exist but looks like the name of a model on the Hugging
// Face Hub, such as "Qwen/Qwen2-0.5B". The caller appends the advice to an error message. Returns
// an empty string if the path cannot be the name of a model.
std::string hub_advice(const std::filesystem::path&);

}  // namespace trireme
