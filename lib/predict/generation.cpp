#include "lib/predict/generation.hpp"

#include <vector>

#include "lib/comm/transport/pretended_transport.hpp"
#include "lib/predict/recorder.hpp"
#include "lib/predict/simulate.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {
namespace {

TrainerSetup setup_of(const PlanInput& in) {
  TrainerSetup s;
  s.model = in.setup.model;
  s.adapter = in.setup.adapter;
  s.context = in.setup.context;
  s.compute = in.setup.compute;
  s.trainable = false;
  return s;
}

// Part of generation that is timed.
enum class Timed : std::uint8_t { prefill, token };

double seconds_of(const PlanInput& in, const DryTarget& target, const MachineModel& machine,
                  std::int64_t sequences, Timed timed) {
  Recorder recorder(target, in, {static_cast<int>(machine.ranks_of_node)}, 0);
  const Workspace workspace(recorder);
  const auto axes = pretend_axes(Grid{}, 1, 0, in.comm);
  Trainer trainer(recorder, axes, setup_of(in));
  const auto context = trainer.model().context();
  KeyValues first{.positions = context, .of_block = {}};
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(context - 1));
  if (timed == Timed::prefill) {
    recorder.start(axes);
    trainer.logits(prompt, &first);
  } else {
    trainer.logits(prompt, &first);
    // All sequences have one cache, because nothing is computed.
    const std::vector<Trainer::Next> next(static_cast<std::size_t>(sequences),
                                          {0, context - 1, &first});
    recorder.start(axes);
    trainer.extend(next);
  }
  const auto recording = recorder.stop();
  return simulate(machine, {&recording, 1}).seconds;
}

}  // namespace

GenerationTimes predict_generation(const PlanInput& in, const DryTarget& target,
                                   const MachineModel& machine, std::int64_t sequences) {
  require(in.grid.ranks() == 1,
          "--generate predicts the times of one rank, but {} ranks are planned: pass --ranks 1",
          in.grid.ranks());
  require(context_of(in.setup) > 1, "a context of one token has no room for a prompt and a token");
  return {sequences, seconds_of(in, target, machine, sequences, Timed::prefill),
          seconds_of(in, target, machine, sequences, Timed::token)};
}

}  // namespace trireme
