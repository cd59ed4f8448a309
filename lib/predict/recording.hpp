#pragma once
// A recording of one rank's step: operations on queues, events, messages, and the points where the
// host waits. A recording is plain data without times. lib/predict/simulate.hpp computes the times.
//
// Terms: a kind is a set of ranks whose steps are alike (lib/plan/rank_kinds.hpp). One rank is
// recorded for all ranks of its kind. A workload is an operation with everything that its time
// depends on.
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

// Memory layout of a matrix product's operands. nt: x W' (forward pass). nn: dy W (gradient of the
// input). tn: dy' x (gradient of the weight). fp8: the layout of all products in fp8.
enum class MatmulLayout : std::uint8_t { nt, nn, tn, fp8 };
template <>
inline constexpr auto value_names<MatmulLayout> = named<MatmulLayout>("nt", "nn", "tn", "fp8");

// An operation with everything that its execution time depends on.
struct Workload {
  std::string_view name;  // name in machine files: the operation's, or that of a variant
  DType dtype = DType::f32;
  double bytes = 0, flops = 0;  // work, counted as in kernels/operation.hpp (Work)
  // Sizes M, N, K of a product. For a grouped product, the sizes of a group of mean size.
  std::array<std::int64_t, 3> m{};
  MatmulLayout layout{};
  // Sizes of attention. `heads` is the number of heads in all samples. `tokens` is the length of a
  // causal sample in which queries attend to the same mean number of keys.
  std::int64_t tokens = 0, head_dim = 0, heads = 0;
  bool within_documents = false;

  auto operator<=>(const Workload&) const = default;
};

// Axis of the grid to which waiting for messages is attributed.
enum class Axis : std::uint8_t { shard, seq, pipe, expert, all };
template <>
inline constexpr auto value_names<Axis> = named<Axis>("shard", "seq", "pipe", "expert", "all");
inline constexpr int axis_count = 5;
// Returns the axis of a communicator.
Axis axis_of(Comm);

// Amount of data in messages.
struct Volume {
  double bytes = 0;
  std::int64_t messages = 0;
};

// A collective, send or receive from the view of one rank.
struct Transfer {
  enum class Pattern : std::uint8_t { gather, scatter, exchange, send, receive };
  Pattern pattern{};
  Comm comm{};
  Queue queue{};
  engine::OperationKind doing{};
  std::string unit;
  int microbatch = -1;
  int peer = -1;             // kind on the other side of a send or receive; -1 for a collective
  int ranks = 1;             // number of participants
  NodeSpread spread;         // nodes of the participants
  Volume out_near, out_far;  // sent within the node and to other nodes
  Volume in_near, in_far;
  int own = -1;  // workload that copies the data that stays on this rank; -1 means none
  // Workloads that convert all messages before sending, and that add them after receiving. -1 means
  // none.
  int cast = -1, sum = -1;

  double bytes_in() const { return in_near.bytes + in_far.bytes; }
  double bytes_out() const { return out_near.bytes + out_far.bytes; }
};

// One request of the recorded step, or one point at which the host waits.
struct Action {
  enum class What : std::uint8_t {
    compute,   // index: the workload
    record,    // records an event
    wait,      // the queue waits for an event
    call,      // starts a transfer; index: the transfer
    finish,    // the host waits until a transfer is complete; index: the transfer
    poll,      // lets transfers in flight progress
    download,  // the host waits until the queue has copied bytes to it
    upload,
    agree,  // the host waits until all ranks are here
  };
  What what{};
  Queue queue{};
  std::int32_t index = -1;
  Event event{};
};

// A named part of the step, with the actions [begin, end).
struct Scope {
  std::string name, unit;
  int microbatch = -1;
  std::int64_t begin = 0, end = 0;
};

// All actions of one rank's step.
struct Recording {
  int rank = 0;
  int ranks = 1, ranks_of_node = 1;  // of the job
  Grid::At at;
  std::array<std::vector<int>, comm_count> members;  // kinds of the ranks in each communicator
  std::vector<Workload> workloads;
  std::vector<Transfer> transfers;
  std::vector<Action> actions;
  std::vector<Scope> scopes;
};

}  // namespace trireme
