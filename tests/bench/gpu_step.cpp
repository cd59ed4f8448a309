#include <nlohmann/json.hpp>
#include <optional>

#include "lib/plan/plan.hpp"
#include "lib/train/trainer.hpp"
#include "lib/train/work.hpp"
#include "tests/bench/gpu.hpp"
#include "tests/bench/training.hpp"

namespace trireme::bench {
namespace {

constexpr double GiB = 1 << 30;

// Bytes that the arena may reserve: the rest is for the driver and the libraries' code.
std::size_t memory_of(const GpuJob& job) {
  if (job.memory > 0) return static_cast<std::size_t>(job.memory * GiB);
  if (job.backend.name != "cuda") return std::size_t{1} << 60;
  return static_cast<std::size_t>(0.97 * static_cast<double>(cuda_device_bytes(0)) - GiB);
}

// The largest microbatch that fits, planned on the backend that computes nothing; blocks are
// computed again only where nothing fits otherwise.
void fit(const GpuJob& job, TrainerSetup& setup, TrainConfig& train) {
  auto target = dry_target(job.backend);
  target.capacity = std::size_t{1} << 60;  // what is too much is found below
  const auto most = memory_of(job);
  for (const auto& [name, recompute] :
       {std::pair("none", Recompute::none), std::pair("block", Recompute::block)}) {
    if (job.recompute != "auto" && job.recompute != name) continue;
    setup.recompute = recompute;
    for (std::int64_t m = job.microbatch > 0 ? job.microbatch : job.batch; m > 0; --m) {
      if (job.batch % m == 0) {
        train.microbatch = m;
        if (needed_within({setup, train, Grid{}, PlanEvaluation::left_out}, target, most)) return;
      }
      if (job.microbatch > 0) break;
    }
  }
  fail("no microbatch of {} fits into {:.1f} GiB: fewer --layers need less", job.preset,
       static_cast<double>(most) / GiB);
}

// Documents end at random, so their lengths are distributed exponentially.
Batch batch_of(const GpuJob& job, const ModelConfig& c, std::int64_t samples, std::uint64_t seed) {
  auto batch = random_batch(samples, c.max_context, c.vocab, seed);
  if (job.documents == 0) return batch;
  const auto mean = static_cast<std::uint64_t>(job.documents);
  std::int32_t start = 0;
  for (std::int64_t i = 0; i < samples * c.max_context; ++i) {
    const auto t = static_cast<std::int32_t>(i % c.max_context);
    if (t == 0 || hash64(~seed, static_cast<std::uint64_t>(i)) % mean == 0) start = t;
    batch.start_BT.push_back(start);
  }
  return batch;
}

class Steps {
 public:
  Steps(Trainer& trainer, std::vector<Batch> batches)
      : trainer_(trainer), batches_(std::move(batches)) {}

  // Milliseconds. The device's last work of a step, the update, ends in the time of the next.
  double one() {
    const double begin = seconds();
    const auto result = trainer_.step(done_++, 1e-4, batches_);
    require(result.outcome == StepOutcome::updated, "step {} did not train: {}", done_,
            result.culprit);
    return 1e3 * (seconds() - begin);
  }

 private:
  Trainer& trainer_;
  std::vector<Batch> batches_;
  std::int64_t done_ = 0;
};

nlohmann::ordered_json classes_of(std::span<const OperationTime> times, double steps) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& t : times)
    list.push_back({{"name", t.name},
                    {"calls", static_cast<double>(t.calls) / steps},
                    {"ms", t.milliseconds / steps},
                    {"bytes", t.work.bytes / steps},
                    {"flops", t.work.flops / steps}});
  return list;
}

}  // namespace

void print_step(const GpuJob& job) {
  TrainerSetup setup;
  setup.model = model_of(job);
  setup.adapter = job.adapter;
  setup.compute = compute_type(job.backend, job.dtype);
  setup.products = job.products;
  TrainConfig train;
  train.batch = job.batch;
  if (job.documents > 0) setup.attention = AttentionSpan::document;
  fit(job, setup, train);
  const auto& c = setup.model;

  const auto backend = open_backend(job.backend);
  const Workspace workspace(*backend);
  Trainer trainer(*backend, {}, setup);
  trainer.store().initialize(1, job.backend.threads);
  std::vector<Batch> batches;
  for (std::int64_t m = 0; m < job.batch / train.microbatch; ++m)
    batches.push_back(batch_of(job, c, train.microbatch, static_cast<std::uint64_t>(m) + 1));
  Steps steps(trainer, std::move(batches));
  constexpr int warm_up = 3;  // the first ones choose how products are computed
  for (int i = 0; i < warm_up; ++i) steps.one();
  std::vector<double> times;
  for (std::int64_t i = 0; i < job.steps; ++i) times.push_back(steps.one());

  const double ms = median(times);
  const auto tokens = job.batch * c.max_context;
  const auto& spec = trainer.model().spec();
  const double flops = flops_of_token(spec, c.max_context) * static_cast<double>(tokens);
  nlohmann::ordered_json out = {
      {"model", job.preset},
      {"layers", c.layers},
      {"layers_of_preset", model_preset(job.preset).layers},
      {"backend", backend->name()},
      {"dtype", name_of(setup.compute)},
      {"products", name_of(setup.products)},
      {"exactness", job.backend.bits == CudaBits::fast ? "fast" : "repeatable"},
      {"documents", job.documents},
      {"adapter_rank", setup.adapter.rank},
      {"recompute", setup.recompute == Recompute::none ? "none" : "block"},
      {"parameters", spec.parameter_count()},
      {"tokens", tokens},
      {"context", c.max_context},
      {"microbatch", train.microbatch},
      {"step_ms", ms},
      {"tokens_per_s", 1e3 * static_cast<double>(tokens) / ms},
      {"tflops", flops / ms * 1e-9},
      {"reserved_GiB", static_cast<double>(backend->account().reserved) / GiB}};
  if (backend->name() == "cuda" && job.timed > 0) {
    start_cuda_timing(*backend);
    const double begin = seconds();
    for (std::int64_t i = 0; i < job.timed; ++i) steps.one();
    const auto operations = stop_cuda_timing(*backend);
    const auto n = static_cast<double>(job.timed);
    out["timed_step_ms"] = 1e3 * (seconds() - begin) / n;
    out["classes"] = classes_of(operations, n);
  }
  fmt::print("{}\n", out.dump());
}

}  // namespace trireme::bench
