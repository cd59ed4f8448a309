#pragma once
// Errors that every rank hears of, so that all take the same way on.
#include <functional>

#include "lib/base/error.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Thrown on every rank of a communicator, with the same text: who catches it knows that no other
// rank goes on without it.
struct SharedError : Error {
  using Error::Error;
};

// Runs `work`, which may do something else on each rank but nothing collective. When it throws on
// any, all get a SharedError with the messages, each said once.
void together(const Communicator&, const std::function<void()>& work);

// Rank 0 alone runs `work`, for all: its error is everybody's, so no rank is named.
void at_root(const Communicator&, const std::function<void()>& work);

}  // namespace trireme
