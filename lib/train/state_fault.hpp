#pragma once
#include "lib/comm/agree.hpp"

namespace trireme {

// Thrown if weights or optimizer state must not be saved, regardless of checkpoint.on_error.
struct StateFault : SharedError {
  using SharedError::SharedError;
};

}  // namespace trireme
