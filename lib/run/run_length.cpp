#include "lib/run/run_length.hpp"

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/limits.hpp"

namespace trireme {

std::int64_t steps_of_run(const TrainConfig& t, std::int64_t context, const CheckpointMeta& meta) {
  if (t.steps > 0) return t.steps;
  const auto left = std::max<std::int64_t>(0, t.tokens - meta.tokens), each = t.batch * context;
  return meta.step + (left + each - 1) / each;
}

void require_countable(const TrainConfig& t, std::int64_t context, const CheckpointMeta& meta) {
  const auto steps = steps_of_run(t, context, meta);
  const auto fits = [&](std::int64_t there, std::int64_t each) {
    return std::max<std::int64_t>(0, steps - meta.step) <= (most_counted - there) / each;
  };
  require(fits(meta.samples, t.batch) && fits(meta.tokens, t.batch * context),
          "{} steps of train.batch = {} samples of {} tokens are more than 2^53 samples or tokens "
          "in total: train for fewer steps",
          steps, t.batch, context);
}

}  // namespace trireme
