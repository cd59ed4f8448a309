#pragma once
// Records the operations and messages of a step. The recorder is a dry backend, which computes
// nothing, and an observer of the communicators.
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/dry/dry.hpp"
#include "lib/comm/axes.hpp"
#include "lib/comm/engine/observer.hpp"
#include "lib/comm/placement.hpp"
#include "lib/plan/rank_kinds.hpp"
#include "lib/predict/recording.hpp"

namespace trireme {

// Recorder of all requests that a rank's step makes to the backend and the communicators.
class Recorder final : public Dry, public engine::Observer {
 public:
  // Prepares to record rank `rank`. The order of memory accesses is not checked.
  Recorder(DryTarget, const PlanInput&, Placement, int rank);

  // Begins recording. Operations before start() are executed but not recorded.
  void start(const Axes&);
  // Ends recording and returns the result.
  Recording stop();

  void put(Queue, const kernel::Operation&) override;
  Event record(Queue) override;
  void wait(Queue, Event) override;
  void upload(Queue, View dst, std::span<const std::byte>) override;
  void download(Queue, std::span<std::byte>, ConstView src) override;

  void call(const engine::Context&, Queue, const engine::Call&) override;
  void called(const engine::Operation&) override;
  void wait(const engine::Operation&) override;
  void poll() override;
  void agree(const engine::Context&, std::size_t bytes) override;

 private:
  bool writing() const { return on_ && !within_call_; }
  int index_of(const Workload&);
  void act(Action a) { out_.actions.push_back(a); }
  void put_workload(Queue, const Workload&);
  void count(Transfer&, std::span<const int> world, const engine::Call&) const;

  Placement placement_;
  Grid grid_;
  RankKinds kinds_;
  DocumentLengths documents_;  // determine the time of attention
  int shard_;                  // ranks that share one copy of the state
  bool immediate_;  // operations complete when they are issued, so events carry no information
  bool on_ = false, within_call_ = false;
  Recording out_;
  std::map<Workload, int> known_;
  std::optional<Comms> comms_;
  std::array<NodeSpread, comm_count> spreads_;  // nodes of each communicator's ranks
  std::unordered_map<const engine::Operation*, std::int32_t> in_flight_;
};

// Records one step of the run without replay: the step that trains the most parameters. If given,
// `account` receives the memory in use, including the copy from which checkpoints are written.
Recording record_step(const PlanInput&, const DryTarget&, Placement, int rank,
                      Account* account = nullptr);

}  // namespace trireme
