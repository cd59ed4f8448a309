#pragma once
// Environment variables that libraries read before main runs.
#include <initializer_list>

namespace trireme {

// An environment variable and its value.
struct EarlySetting {
  const char *name, *value;
};

// Sets the variables that the environment does not define yet, then executes this program again
// with `argv`. A variable that the user has set keeps its value. Returns only if all variables were
// defined or if the execution failed.
void start_again_with(std::initializer_list<EarlySetting>, char** argv);

}  // namespace trireme
