#pragma once
// Errors that all ranks throw alike, so that they stay in step.
#include <cstdint>
#include <functional>

#include "lib/base/error.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Thrown on every rank of a communicator with the same text: whoever catches it knows that all
// other ranks do, too.
struct SharedError : Error {
  using Error::Error;
};

// Slow work, such as that of a disk, may take longer than CommSettings::hang_timeout: a thread
// beside it tells the waiting ranks now and then that this rank works. It then makes no call of
// MPI, not even progress().
enum class Pace : std::uint8_t { quick, slow };

// Runs `work`, which may differ between ranks and calls nothing collective. When it throws on any
// rank, all throw a SharedError with the distinct messages.
void together(const Communicator&, Pace, const std::function<void()>& work);
void together(const Communicator&, const std::function<void()>& work);  // quick

// Runs `work` on rank 0 alone; when it throws, all ranks throw a SharedError with its message.
void at_root(const Communicator&, Pace, const std::function<void()>& work);
void at_root(const Communicator&, const std::function<void()>& work);  // quick

}  // namespace trireme
