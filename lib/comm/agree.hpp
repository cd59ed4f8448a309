#pragma once
// Functions that turn an error on some ranks into the same error on all ranks, so that all ranks
// continue with the same operations.
#include <cstdint>
#include <functional>

#include "lib/base/error.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// An error that is thrown with the same text on every rank of a communicator. Code that catches a
// SharedError can rely on all other ranks having caught it, too.
struct SharedError : Error {
  using Error::Error;
};

// Expected duration of the work. Slow work, such as disk access, may take longer than
// CommSettings::hang_timeout. Meanwhile, a second thread tells the waiting ranks that this rank is
// working. Slow work must therefore make no MPI calls, not even progress().
enum class Pace : std::uint8_t { quick, slow };

// Runs `work` on every rank. `work` may differ between ranks and must not call collectives. If
// `work` throws on any rank, all ranks throw a SharedError with the distinct messages. Collective.
void together(const Communicator&, Pace, const std::function<void()>& work);
void together(const Communicator&, const std::function<void()>& work);  // with Pace::quick

// Runs `work` on rank 0 only. If `work` throws, all ranks throw a SharedError with its message.
// Collective.
void at_root(const Communicator&, Pace, const std::function<void()>& work);
void at_root(const Communicator&, const std::function<void()>& work);  // with Pace::quick

}  // namespace trireme
