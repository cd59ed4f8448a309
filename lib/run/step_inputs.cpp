#include "lib/run/step_inputs.hpp"

#include "lib/comm/agree.hpp"
#include "lib/run/evaluation.hpp"

namespace trireme {

std::vector<Batch> read_step(const Trainer& trainer, const Dataset& data, const TrainConfig& t,
                             std::int64_t first) {
  const auto& axes = trainer.axes();
  std::vector<Batch> microbatches;
  for (std::int64_t i = axes.at.data * t.microbatch; i < t.batch;
       i += axes.grid.data * t.microbatch)
    microbatches.push_back(trainer.share(read_samples(data, first + i, t.microbatch)));
  return microbatches;
}

std::vector<Batch> batches_of_step(const Trainer& trainer, const Dataset& data,
                                   const TrainConfig& t, std::int64_t first) {
  std::vector<Batch> microbatches;
  together(trainer.axes().world, [&] { microbatches = read_step(trainer, data, t, first); });
  return microbatches;
}

void count_step(CheckpointMeta& meta, const TrainConfig& t, std::int64_t sample_length) {
  ++meta.step;
  meta.samples += t.batch;
  meta.tokens += t.batch * sample_length;
}

}  // namespace trireme
