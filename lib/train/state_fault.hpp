#pragma once
#include "lib/comm/agree.hpp"

namespace trireme {

// Thrown if the state of weights and optimizer must not be saved, regardless of
// checkpoint.on_error.
struct StateFault : SharedError {
  using SharedError::SharedError;
};

}  // namespace trireme
