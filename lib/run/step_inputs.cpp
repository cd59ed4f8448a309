#include "lib/run/step_inputs.hpp"

#include "lib/comm/agree.hpp"
#include "lib/run/evaluation.hpp"

namespace trireme {

std::vector<Batch> read_step(const Trainer& trainer, const Dataset& data, std::int64_t microbatch,
                             SampleRange range) {
  const auto& axes = trainer.axes();
  std::vector<Batch> microbatches;
  for (std::int64_t i = axes.at.data * microbatch; i < range.count;
       i += axes.grid.data * microbatch)
    microbatches.push_back(trainer.share(read_samples(data, range.first + i, microbatch)));
  return microbatches;
}

std::vector<Batch> batches_of_step(const Trainer& trainer, const Dataset& data,
                                   std::int64_t microbatch, SampleRange range) {
  std::vector<Batch> microbatches;
  together(trainer.axes().world,
           [&] { microbatches = read_step(trainer, data, microbatch, range); });
  return microbatches;
}

void count_step(CheckpointMeta& meta, std::int64_t samples, std::int64_t sample_length) {
  ++meta.step;
  meta.samples += samples;
  meta.tokens += samples * sample_length;
}

}  // namespace trireme
