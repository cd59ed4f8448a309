#pragma once
#include "lib/comm/agree.hpp"

namespace trireme {

// A state of weights and optimizer that is not to be saved, whatever checkpoint.on_error says.
struct StateFault : SharedError {
  using SharedError::SharedError;
};

}  // namespace trireme
