#pragma once
// Tests that run on several ranks: every rank runs all cases, in step.
#include "lib/comm/communicator.hpp"

namespace trireme::test {

// All ranks of this launch.
const Communicator& world();

}  // namespace trireme::test
