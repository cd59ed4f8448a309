#include "lib/run/run_length.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/limits.hpp"

namespace trireme {

std::int64_t steps_of_run(const TrainConfig& t, std::int64_t context, const CheckpointMeta& meta) {
  return total_steps(t, context, {meta.step, meta.tokens});
}

BatchRamp ramp_after(const CheckpointMeta& meta, const TrainConfig& t, std::int64_t context) {
  return {t, context, {meta.step, meta.tokens}};
}

std::int64_t step_of_sample(const BatchRamp& ramp, const CheckpointMeta& meta,
                            std::int64_t sample) {
  return meta.step + ramp.steps_for(sample - meta.samples + 1) - 1;
}

void require_countable(const TrainConfig& t, std::int64_t context, const CheckpointMeta& meta) {
  const auto steps = steps_of_run(t, context, meta);
  const auto samples = ramp_after(meta, t, context).samples(meta.step, steps);
  require(
      samples <= most_counted - meta.samples && samples <= (most_counted - meta.tokens) / context,
      "{} steps of train.batch = {} samples of {} tokens are more than 2^53 samples or tokens "
      "in total: train for fewer steps",
      steps, t.batch, context);
}

std::vector<std::int64_t> first_samples_of_phases(const DataConfig& data, const TrainConfig& t,
                                                  const CheckpointMeta& meta) {
  const auto ramp = ramp_after(meta, t, data.context);
  std::vector<std::int64_t> samples;
  for (const auto& phase : data.phases) {
    const auto tokens = std::max<std::int64_t>(0, phase.from_tokens - meta.tokens);
    samples.push_back(meta.samples + ramp.samples(meta.step, std::max(meta.step, phase.from_step)) +
                      (tokens + data.context - 1) / data.context);
  }
  return samples;
}

std::vector<PhaseBorder> borders_of_phases(const DataConfig& data, const TrainConfig& t,
                                           const CheckpointMeta& meta) {
  const auto ramp = ramp_after(meta, t, data.context);
  const auto samples = first_samples_of_phases(data, t, meta);
  std::vector<PhaseBorder> borders;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto& phase = data.phases[i];
    const bool has_begun =
        phase.from_step > 0 ? phase.from_step < meta.step : phase.from_tokens < meta.tokens;
    if (!has_begun) borders.push_back({i, step_of_sample(ramp, meta, samples[i])});
  }
  return borders;
}

std::vector<PhaseExtent> extents_of_phases(const DataConfig& data, const TrainConfig& t,
                                           const CheckpointMeta& meta) {
  const auto ramp = ramp_after(meta, t, data.context);
  const auto end = meta.samples + ramp.samples(meta.step, steps_of_run(t, data.context, meta));
  auto starts = first_samples_of_phases(data, t, meta);
  starts.insert(starts.begin(), meta.samples);
  const auto step_of = [&](std::int64_t sample) { return step_of_sample(ramp, meta, sample); };
  std::vector<PhaseExtent> all;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto next = i + 1 < starts.size() ? std::min(starts[i + 1], end) : end;
    if (starts[i] < next)
      all.push_back({starts[i], next, step_of(starts[i]), ramp.batch(step_of(next - 1))});
  }
  return all;
}

}  // namespace trireme
