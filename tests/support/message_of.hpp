#pragma once
#include <string>

#include "lib/base/error.hpp"

namespace trireme {

// The message of the Error that `action` throws, empty when it throws none.
template <class Failure = Error, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Failure& e) {
    return e.what();
  }
  return {};
}

}  // namespace trireme
