#pragma once
// One rank's step as it was asked of a machine: operations on queues, events, messages, and where
// the host waits. Data alone; what it takes is for lib/predict/simulate.
//
// Words: a kind is a set of ranks whose steps are alike (lib/plan/rank_kinds.hpp); one of them is
// recorded for all. A workload is an operation with all that its time depends on.
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"
#include "lib/base/value_names.hpp"
#include "lib/comm/comms.hpp"
#include "lib/comm/engine/label.hpp"
#include "lib/comm/grid.hpp"
#include "lib/comm/placement.hpp"

namespace trireme {

// How a product's operands lie: x W' (forward), dy W (gradient of the input), dy' x (of the
// weight).
enum class MatmulLayout : std::uint8_t { nt, nn, tn };
template <>
inline constexpr auto value_names<MatmulLayout> = named<MatmulLayout>("nt", "nn", "tn");

struct Workload {
  std::string_view name;  // as machine files have it: the operation's, or a variant's
  DType dtype = DType::f32;
  double bytes = 0, flops = 0;      // kernels/operation.hpp: Work
  std::array<std::int64_t, 3> m{};  // of a product: M, N, K; grouped: of one of mean size
  MatmulLayout layout{};
  // Of attention: heads of all samples, and the tokens of a sample whose queries see as many keys
  // on average, all before them.
  std::int64_t tokens = 0, head_dim = 0, heads = 0;

  auto operator<=>(const Workload&) const = default;
};

// What waits for messages are charged to.
enum class Axis : std::uint8_t { shard, seq, pipe, expert, all };
template <>
inline constexpr auto value_names<Axis> = named<Axis>("shard", "seq", "pipe", "expert", "all");
inline constexpr int axis_count = 5;
Axis axis_of(Comm);

struct Volume {
  double bytes = 0;
  std::int64_t messages = 0;
};

// An operation of lib/comm, as one rank sees it.
struct Transfer {
  enum class Pattern : std::uint8_t { gather, scatter, exchange, send, receive };
  Pattern pattern{};
  Comm comm{};
  Queue queue{};
  engine::Doing doing{};
  std::string unit;
  int microbatch = -1;
  int peer = -1;             // of a send or receive: the other kind
  int ranks = 1;             // that take part
  NodeSpread spread;         // their nodes
  Volume out_near, out_far;  // sent within the node, to other nodes
  Volume in_near, in_far;
  int own = -1;             // workload: what stays on this rank is copied
  int cast = -1, sum = -1;  // workloads of all messages together: before, after they travel

  double bytes_in() const { return in_near.bytes + in_far.bytes; }
  double bytes_out() const { return out_near.bytes + out_far.bytes; }
};

struct Action {
  enum class What : std::uint8_t {
    compute,   // index: a workload
    record,    // event
    wait,      // queue waits for event
    call,      // index: a transfer begins
    finish,    // index: the host goes on when it is complete
    poll,      // what is in flight may progress
    download,  // the host goes on when the queue is done; bytes come with it
    upload,
    agree,  // the host goes on when all ranks are here
  };
  What what{};
  Queue queue{};
  std::int32_t index = -1;
  Event event{};
};

// A scope of the step, from one action to the one behind its last.
struct Scope {
  std::string name, unit;
  int microbatch = -1;
  std::int64_t begin = 0, end = 0;
};

struct Recording {
  int rank = 0;
  int ranks = 1, ranks_of_node = 1;  // of the job
  Grid::At at;
  std::array<std::vector<int>, comm_count> members;  // kinds of the ranks of each comm
  std::vector<Workload> workloads;
  std::vector<Transfer> transfers;
  std::vector<Action> actions;
  std::vector<Scope> scopes;
};

}  // namespace trireme
