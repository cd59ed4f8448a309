#pragma once
#include <filesystem>
#include <string>

namespace trireme {

// Of a path that is not there: what to do if it is meant as a name of the Hugging Face Hub, such as
// "Qwen/Qwen2-0.5B", to be put behind a message. Empty where it can be none.
std::string hub_advice(const std::filesystem::path&);

}  // namespace trireme
