#pragma once
// Functions that turn an error on some ranks into the same error on all ranks, so that ranks stay
// in step.
#include <cstdint>
#include <functional>

#include "lib/base/error.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// An error that is thrown on every rank of a communicator with the same text. Code that catches it
// knows that all other ranks have it, too.
struct SharedError : Error {
  using Error::Error;
};

// How long the work may take. Slow work, such as disk access, may take longer than
// CommSettings::hang_timeout. Meanwhile a second thread tells the waiting ranks that this rank
// works. Slow work must therefore make no MPI calls, not even progress().
enum class Pace : std::uint8_t { quick, slow };

// Runs `work` on every rank. It may differ between ranks and must call no collectives. If it throws
// on any rank, all ranks throw a SharedError with the distinct messages. Collective.
void together(const Communicator&, Pace, const std::function<void()>& work);
void together(const Communicator&, const std::function<void()>& work);  // with Pace::quick

// Runs `work` on rank 0 only. If it throws, all ranks throw a SharedError with its message.
// Collective.
void at_root(const Communicator&, Pace, const std::function<void()>& work);
void at_root(const Communicator&, const std::function<void()>& work);  // with Pace::quick

}  // namespace trireme
