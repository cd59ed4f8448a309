#pragma once
// What to say of options that do not exist.
#include <string>

namespace trireme {

// A line for each argument --NAME or --NAME=VALUE whose name is a deck's key, or another trainer's
// name of one.
std::string hints_for(int argc, const char* const* argv);

}  // namespace trireme
