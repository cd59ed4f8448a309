#pragma once
// Settings that libraries read from the environment before main.
#include <initializer_list>

namespace trireme {

struct EarlySetting {
  const char *name, *value;
};

// Starts this program once more with those of the settings that the environment does not have: what
// a user chose stays. Returns when nothing is to be done or the system refuses.
void start_again_with(std::initializer_list<EarlySetting>, char** argv);

}  // namespace trireme
