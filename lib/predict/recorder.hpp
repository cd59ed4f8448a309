#pragma once
// Records a step: a dry backend and an observer of the communicators that write down what they are
// asked for.
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

class Recorder final : public Dry, public engine::Observer {
 public:
  // Axes and grid are those of this rank. Accesses are not checked.
  Recorder(DryTarget, const PlanInput&, Placement, int rank);

  // Begins to write down; before that everything is only made.
  void start(const Axes&);
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
  int shard_;       // zero's sharers
  bool immediate_;  // operations are done when they are put: no event says anything
  bool on_ = false, within_call_ = false;
  Recording out_;
  std::map<Workload, int> known_;
  std::optional<Comms> comms_;
  std::array<NodeSpread, comm_count> spreads_;  // of the ranks of each
  std::unordered_map<const engine::Operation*, std::int32_t> in_flight_;
};

// One step of the run that trains most; no replay. `account`, if given, gets the memory that it
// takes, with the copy that checkpoints are written from.
Recording record_step(const PlanInput&, const DryTarget&, Placement, int rank,
                      Account* account = nullptr);

}  // namespace trireme
