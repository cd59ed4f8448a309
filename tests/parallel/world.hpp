#pragma once
// Tests that run on several ranks: every rank runs all cases, in step.
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme::test {

// All ranks of this launch.
const Communicator& world();

// Returns when all ranks are here: before a folder goes that others may read still, say.
void meet();

// In a test of many cases, before each: all ranks tell the watchdog that they got here. False: the
// test has failed on one of them.
bool next_case(const std::string& name);

}  // namespace trireme::test
