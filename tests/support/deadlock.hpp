#pragma once
// Do the programs of all stages finish, given how sends and queues behave? A simulation without
// time: it runs what can run until nothing can. The order does not matter, because an instruction
// that can run now can also run later.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/support/route.hpp"

namespace trireme {

enum class Sends : std::uint8_t {
  posted,           // post and return
  one_outstanding,  // post and return once the previous one of its kind and direction is received
  blocking,         // return when received, as a large MPI_Send and NCCL do
};

// What an instruction waits for besides its message.
enum class Queues : std::uint8_t {
  host,   // all instructions before it
  split,  // those before it in its own in-order queue, of compute, down and up, and what it reads
  joint,  // the same, with both directions in one queue
};

struct Execution {
  Sends sends = Sends::posted;
  Queues queues = Queues::host;
  std::vector<int> sets = {};  // inputs that each stage has room for; empty: any number
};

// An instruction that is next in its queue and never runs.
struct Wait {
  int stage;
  Instruction instruction;
  std::string reason;
};

// The deadlock, at most one wait for each stage and queue; empty: the programs finish.
std::vector<Wait> stuck(const Route&, std::span<const Program>, const Execution&);

// "stage 0: send_activation 1 waits for ...", one line each.
std::string describe(std::span<const Wait>);

}  // namespace trireme
