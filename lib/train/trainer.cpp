#include "lib/train/trainer.hpp"

#include <algorithm>
#include <cmath>

namespace trireme {

Trainer::Trainer(Backend& backend, const Communicator& world, const ModelConfig& model,
                 const OptimizerConfig& optimizer, DType compute, std::uint64_t seed)
    : Trainer(backend, world, model, optimizer, compute, seed,
              optimizer.name == OptimizerKind::adamw ? Upkeep::adamw : Upkeep::sgd) {}

Trainer::Trainer(Backend& backend, const Communicator& world, const ModelConfig& model,
                 DType compute)
    : Trainer(backend, world, model, {}, compute, 0, Upkeep::forward) {}

Trainer::Trainer(Backend& backend, const Communicator& world, const ModelConfig& model,
                 const OptimizerConfig& optimizer, DType compute, std::uint64_t seed, Upkeep upkeep)
    : backend_(backend),
      world_(world),
      optimizer_(optimizer),
      seed_(seed),
      workspace_(backend),
      model_(backend, make_spec(model), compute),
      store_(backend, model_.spec(), make_layout(model_.spec(), 1, optimizer.no_decay), compute,
             upkeep) {}

template <class T>
static Tensor to_device(Backend& b, const Shape& shape, std::span<const T> values) {
  Tensor t = Tensor::empty(b, shape, dtype_of<T>, Kind::boundary);
  b.upload(Queue::compute, t.view(), std::as_bytes(values));
  return t;
}

Microbatch Trainer::upload(const Batch& batch) {
  const auto samples = static_cast<std::int64_t>(batch.sample_B.size());
  const auto tokens = static_cast<std::int64_t>(batch.ids_BT.size()) / samples;
  return {to_device<std::int32_t>(backend_, {samples, tokens}, batch.ids_BT),
          to_device<std::int32_t>(backend_, {samples, tokens}, batch.targets_BT),
          to_device<std::int64_t>(backend_, {samples}, batch.sample_B)};
}

static double download_scalar(Backend& b, const Tensor& t) {
  double value = 0;
  b.download(Queue::compute, std::as_writable_bytes(std::span(&value, 1)), t.view());
  return value;
}

StepResult Trainer::step(std::int64_t step, double lr, std::span<const Batch> microbatches) {
  StepResult result;
  for (const auto& batch : microbatches) result.valid += batch.valid;
  if (result.valid == 0) {
    result.verdict = Verdict::no_targets;
    return result;
  }
  const Session session(store_, Purpose::train);
  Stage stage(model_, session, backend_, world_, model_.spec().config.recompute);
  const Stage::When when{Phase::train, seed_, step, 1.0 / static_cast<double>(result.valid)};
  std::vector<Tensor> losses;
  for (std::size_t m = 0; m < microbatches.size(); ++m) {
    const auto batch = upload(microbatches[m]);
    losses.push_back(stage.forward(static_cast<int>(m), batch, when));
    stage.backward(static_cast<int>(m), batch, when);
  }
  const auto squares = store_.finish_gradients();
  double sum_squares = 0;
  for (double s : squares) sum_squares += s;
  for (const auto& loss : losses) result.loss += download_scalar(backend_, loss);
  result.loss *= when.scale;
  result.grad_norm = std::sqrt(sum_squares);
  if (!std::isfinite(sum_squares) || !std::isfinite(result.loss)) {
    result.verdict = Verdict::not_finite;
    const auto bad = std::ranges::find_if(squares, [](double s) { return !std::isfinite(s); });
    result.culprit =
        bad == squares.end()
            ? "the loss"
            : fmt::format(
                  "the gradient of {}",
                  store_.spec().params[static_cast<std::size_t>(bad - squares.begin())].name);
    return result;
  }
  const double clip = optimizer_.clip;
  update(lr, clip > 0 ? std::min(1.0, clip / (result.grad_norm + 1e-6)) : 1.0);
  return result;
}

void Trainer::update(double lr, double scale) {
  const auto& o = optimizer_;
  if (o.name == OptimizerKind::adamw)
    store_.update(AdamW{lr, o.beta1, o.beta2, o.eps, o.weight_decay, scale, 0});
  else
    store_.update(Sgd{lr, o.weight_decay, scale});
}

LossSum Trainer::evaluate(const Batch& batch) {
  const Session session(store_, Purpose::forward);
  Stage stage(model_, session, backend_, world_, Recompute::none);
  return {download_scalar(backend_, stage.evaluate(upload(batch))), batch.valid};
}

std::vector<double> Trainer::logits(std::span<const std::int32_t> ids) {
  const auto& config = model_.spec().config;
  const auto n = static_cast<std::int64_t>(ids.size());
  require(n >= 1 && n <= config.context, "logits need 1 to {} tokens, got {}", config.context, n);
  // Lengths in steps of 64: tokens behind the last change nothing, and few shapes are built.
  const auto padded = std::min(config.context, (n + 63) / 64 * 64);
  Batch batch{{ids.begin(), ids.end()}, {}, {0}, 0};
  batch.ids_BT.resize(static_cast<std::size_t>(padded), 0);
  batch.targets_BT.resize(static_cast<std::size_t>(padded), -1);
  const Session session(store_, Purpose::forward);
  Stage stage(model_, session, backend_, world_, Recompute::none);
  const Tensor z = stage.logits(upload(batch), n - 1);
  const Tensor wide_z = Tensor::empty(backend_, z.shape(), wide(z.dtype()), Kind::transient);
  backend_.copy(Queue::compute, wide_z.view(), z.view());
  std::vector<double> out(static_cast<std::size_t>(config.vocab));
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
