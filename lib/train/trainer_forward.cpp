// What a Trainer runs forward alone: evaluation and logits.
#include <algorithm>
#include <array>

#include "lib/train/trainer.hpp"

namespace trireme {

// A share without targets, where a rank has fewer microbatches than others.
static Batch padding(std::int64_t samples, std::int64_t tokens) {
  const auto n = static_cast<std::size_t>(samples * tokens);
  return {std::vector<std::int32_t>(n, 0), std::vector<std::int32_t>(n, no_target),
          std::vector<std::int64_t>(static_cast<std::size_t>(samples), 0), 0};
}

LossSum Trainer::evaluate(std::span<const Batch> mine) {
  // Agreed before the first gather: how many microbatches, and of what shape.
  std::array<double, 3> most{static_cast<double>(mine.size()), 0, 0};
  if (!mine.empty()) {
    most[1] = static_cast<double>(mine[0].sample_B.size());
    most[2] = static_cast<double>(mine[0].ids_BT.size()) / most[1];
  }
  axes_.world.all_reduce_max(most);
  std::vector<Batch> microbatches(mine.begin(), mine.end());
  while (static_cast<double>(microbatches.size()) < most[0])
    microbatches.push_back(
        padding(static_cast<std::int64_t>(most[1]), static_cast<std::int64_t>(most[2])));
  if (microbatches.empty()) return {};
  require(
      setup_.exact_chunk == 0 || most[1] * most[2] <= fixed::loss_terms,
      "run.exactness = \"invariant\" adds the losses of up to {} tokens of a microbatch, not {}: "
      "lower train.microbatch",
      fixed::loss_terms, most[1] * most[2]);
  const auto program =
      forward_only(axes_.grid.pipe, static_cast<int>(microbatches.size()), axes_.at.pipe);
  const auto losses = run(program, Purpose::forward, microbatches, {.phase = Phase::evaluate});
  const auto loss = download(axes_.world, backend_, *losses, fixed::loss_terms);
  std::int64_t valid = 0;
  for (const auto& batch : mine) valid += batch.valid;
  const auto sums = add_losses(axes_.world, loss, valid, setup_.exact_chunk > 0);
  if (!sums.overflow.empty()) throw CountOverflow(sums.overflow);
  return sums.loss;
}

std::vector<double> Trainer::logits(std::span<const std::int32_t> ids) {
  const auto& config = model_.spec().config;
  const auto n = static_cast<std::int64_t>(ids.size());
  require(n >= 1 && n <= config.context, "logits need 1 to {} tokens, got {}", config.context, n);
  // Lengths in steps of 64: tokens behind the last change nothing, and few shapes are built.
  const std::int64_t step = 64 * axes_.grid.seq;
  const auto padded = std::min(config.context, (n + step - 1) / step * step);
  Batch whole{{ids.begin(), ids.end()}, {}, {0}, 0};
  whole.ids_BT.resize(static_cast<std::size_t>(padded), 0);
  whole.targets_BT.resize(static_cast<std::size_t>(padded), no_target);
  const auto mine = share(whole);
  const auto tokens = padded / axes_.grid.seq, t = n - 1 - axes_.at.seq * tokens;
  const bool here = axes_.last_stage() && axes_.at.data == 0 && t >= 0 && t < tokens;
  ModelStage::When when{.phase = Phase::evaluate};
  when.logits = true;
  if (here) when.logits_at = t;
  const auto z =
      *run(forward_only(axes_.grid.pipe, 1, axes_.at.pipe), Purpose::forward, {&mine, 1}, when);
  if (!here) return {};
  const Tensor wide_z = Tensor::empty(backend_, z[0].shape(), wide(z[0].dtype()), Kind::transient);
  backend_.put(Queue::compute, kernel::Copy{.dst = wide_z.view(), .src = z[0].view()});
  std::vector<double> out(static_cast<std::size_t>(config.vocab));
  axes_.world.synchronize();
  if (wide_z.dtype() == DType::f64) {
    backend_.download(Queue::compute, std::as_writable_bytes(std::span(out)), wide_z.view());
  } else {
    std::vector<float> f(out.size());
    backend_.download(Queue::compute, std::as_writable_bytes(std::span(f)), wide_z.view());
    std::ranges::copy(f, out.begin());
  }
  return out;
}

}  // namespace trireme
