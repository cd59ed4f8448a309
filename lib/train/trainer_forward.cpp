// Trainer's forward passes that have no backward pass: evaluation and logits.
#include <algorithm>
#include <array>
#include <cmath>

#include "lib/train/trainer.hpp"

namespace trireme {

// Returns a share without targets, for a rank that has fewer micro-batches than others.
static Batch padding(std::int64_t samples, std::int64_t tokens, std::int64_t starts = 0) {
  const auto n = static_cast<std::size_t>(samples * tokens);
  return {std::vector<std::int32_t>(n, 0), std::vector<std::int32_t>(n, no_target),
          std::vector<std::int64_t>(static_cast<std::size_t>(samples), 0), 0,
          std::vector<std::int32_t>(static_cast<std::size_t>(samples * starts), 0)};
}

std::vector<Batch> Trainer::padded(std::span<const Batch> mine) const {
  // Before the first all-gather, all ranks agree on the number of micro-batches, their shape, and
  // whether samples may have padding.
  std::array<double, 4> most{static_cast<double>(mine.size()), 0, 0, 0};
  if (!mine.empty()) {
    most[1] = static_cast<double>(mine[0].sample_B.size());
    most[2] = static_cast<double>(mine[0].ids_BT.size()) / most[1];
    most[3] = mine[0].tokens_B.empty() ? 0 : 1;
  }
  axes_.world.all_reduce_max(most);
  std::vector<Batch> microbatches(mine.begin(), mine.end());
  const auto samples = static_cast<std::int64_t>(most[1]),
             tokens = static_cast<std::int64_t>(most[2]);
  const auto starts = setup_.attention == AttentionSpan::document ? tokens * axes_.grid.seq : 0;
  while (static_cast<double>(microbatches.size()) < most[0]) {
    microbatches.push_back(padding(samples, tokens, starts));
    if (most[3] > 0) microbatches.back().tokens_B.assign(static_cast<std::size_t>(samples), 0);
  }
  return microbatches;
}

LossSum Trainer::evaluate(std::span<const Batch> mine) {
  const auto microbatches = padded(mine);
  if (microbatches.empty()) return {};
  const auto terms = std::ssize(microbatches[0].ids_BT);
  require(setup_.exact_chunk == 0 || terms <= fixed::loss_terms,
          "run.exactness = \"invariant\" can add the losses of at most {} tokens per microbatch, "
          "not {}: lower train.microbatch",
          fixed::loss_terms, terms);
  const auto losses = run_forward(microbatches, {.phase = Phase::evaluate});
  const auto loss = download(axes_.world, backend_, losses, fixed::loss_terms);
  std::int64_t valid = 0;
  for (const auto& batch : mine) valid += batch.valid;
  const auto sums = add_losses(axes_.world, loss, valid, setup_.exact_chunk > 0);
  if (!sums.overflow.empty()) throw CountOverflow(sums.overflow);
  return sums.loss;
}

std::vector<double> Trainer::losses(std::span<const Batch> mine) {
  require(setup_.exact_chunk == 0,
          "run.exactness = \"invariant\" does not support losses of single samples");
  double most = static_cast<double>(mine.size());
  axes_.world.all_reduce_max({&most, 1});
  std::vector<Batch> microbatches(mine.begin(), mine.end());
  const auto tokens = mine.empty() ? 1 : static_cast<std::int64_t>(mine[0].ids_BT.size());
  while (static_cast<double>(microbatches.size()) < most)
    microbatches.push_back(padding(1, tokens));
  std::vector<double> sums(mine.size(), 0);
  if (microbatches.empty()) return sums;
  const auto losses = run_forward(microbatches, {.phase = Phase::evaluate});
  axes_.world.synchronize();
  for (std::size_t i = 0; i < std::min(sums.size(), losses.size()); ++i)
    sums[i] = ops::Head::download(backend_, losses[i]).sum;
  return sums;
}

std::vector<Tensor> Trainer::run_forward(std::span<const Batch> microbatches,
                                         ModelStage::Settings settings) {
  const auto program = forward_program(pipe_, static_cast<int>(microbatches.size()), axes_.at.pipe);
  return *run(program, Purpose::forward, microbatches, std::move(settings));
}

std::vector<Tensor> Trainer::head_inputs(std::span<const Batch> microbatches) {
  ModelStage::Settings settings{.phase = Phase::evaluate};
  settings.head = HeadInputs{};
  settings.forward_name = teacher_span;
  return run_forward(microbatches, settings);
}

// Downloads rows of logits to the host, and applies the soft cap if there is one.
static std::vector<std::vector<double>> download_rows(const Communicator& world, Backend& b,
                                                      const Tensor& z, double cap) {
  const Tensor wide_z = Tensor::empty(b, z.shape(), wide(z.dtype()), MemoryKind::transient);
  b.put(Queue::compute, kernel::Copy{.dst = wide_z.view(), .src = z.view()});
  world.synchronize();
  std::vector<std::vector<double>> rows;
  const auto vocab = z.shape()[1];
  for (std::int64_t r = 0; r < z.shape()[0]; ++r) {
    auto& out = rows.emplace_back(static_cast<std::size_t>(vocab));
    const auto row = wide_z.slice(r * vocab, {vocab}).view();
    if (row.dtype == DType::f64) {
      b.download(Queue::compute, std::as_writable_bytes(std::span(out)), row);
    } else {
      std::vector<float> f(out.size());
      b.download(Queue::compute, std::as_writable_bytes(std::span(f)), row);
      std::ranges::copy(f, out.begin());
    }
    if (cap > 0)
      for (auto& x : out) x = cap * std::tanh(x / cap);
  }
  return rows;
}

std::vector<double> Trainer::logits(std::span<const std::int32_t> ids, KeyValues* keep) {
  const auto context = model_.context();
  const auto n = static_cast<std::int64_t>(ids.size());
  require(n >= 1 && n <= context, "logits can be computed for 1 to {} tokens, but {} were passed",
          context, n);
  // Lengths are rounded up to a multiple of 64 tokens per rank, so that few different shapes are
  // allocated. Tokens after the last one do not change the result.
  const std::int64_t step = 64 * axes_.grid.seq;
  const auto padded = std::min(context, (n + step - 1) / step * step);
  Batch whole{{ids.begin(), ids.end()}, {}, {0}, 0};
  whole.ids_BT.resize(static_cast<std::size_t>(padded), 0);
  whole.targets_BT.resize(static_cast<std::size_t>(padded), no_target);
  const auto mine = share(whole);
  const auto own = sequence_of(padded).every_position(axes_.at.seq);
  const auto t = std::ranges::find(own, n - 1) - own.begin();  // this rank's row for the last token
  const bool here = has_head() && t < std::ssize(own);
  const Cached cached{.use = Cached::Use::fill, .rows = n, .kept_B = {&keep, 1}};
  HeadLogits logits;
  if (here) logits.at = t;
  if (keep) logits.cached = &cached;
  ModelStage::Settings settings{.phase = Phase::evaluate};
  settings.head = logits;
  const auto z = run_forward({&mine, 1}, settings);
  if (!here) return {};
  return std::move(
      download_rows(axes_.world, backend_, z[0], model_.spec().config.logit_softcap)[0]);
}

std::vector<std::vector<double>> Trainer::extend(std::span<const Next> rows) {
  Batch batch;
  std::vector<KeyValues*> kept_B;
  std::vector<std::int64_t> at_B;
  for (const auto& [token, at, kept] : rows) {
    require(at < model_.context() && at < kept->positions,
            "a token at position {} does not fit into a context of {}", at, model_.context());
    batch.ids_BT.push_back(token);
    batch.targets_BT.push_back(no_target);
    batch.sample_B.push_back(0);
    kept_B.push_back(kept);
    at_B.push_back(at);
  }
  const Cached cached{.use = Cached::Use::extend, .kept_B = kept_B, .at_B = at_B};
  const bool here = has_head() && axes_.at.seq == 0;
  ModelStage::Settings settings{.phase = Phase::evaluate};
  settings.head = HeadLogits{here ? std::optional<std::int64_t>(0) : std::nullopt, &cached};
  const auto z = run_forward({&batch, 1}, settings);
  if (!here) return {};
  return download_rows(axes_.world, backend_, z[0], model_.spec().config.logit_softcap);
}

}  // namespace trireme
