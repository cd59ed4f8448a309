// Generation with cached keys and values: the time of one token, and the memory that it reads.
#include <nlohmann/json.hpp>

#include "lib/train/trainer.hpp"
#include "tests/bench/gpu.hpp"
#include "tests/bench/training.hpp"

namespace trireme::bench {
namespace {

// Bytes that a token's step must read: all weights but an untied embedding, of which it looks up
// single rows, and the cached keys and values.
double bytes_of_step(const ModelConfig& c, std::int64_t parameters, std::int64_t samples,
                     std::int64_t positions, DType type) {
  const auto weights = parameters - (c.tied ? 0 : c.vocab * c.width);
  const auto cached = 2 * c.layers * c.kv_heads * c.head_dim * positions * samples;
  return static_cast<double>(weights + cached) * static_cast<double>(bytes_of(type));
}

}  // namespace

void print_decode(const GpuJob& job) {
  constexpr int warm_up = 3;
  TrainerSetup setup;
  setup.model = model_of(job);
  setup.adapter = job.adapter;
  setup.compute = compute_type(job.backend, job.dtype);
  setup.trainable = false;
  const auto& c = setup.model;
  const auto prompt = c.max_context - job.steps - warm_up;
  require(prompt >= 1, "--context {} has no room for {} tokens after a prompt", c.max_context,
          job.steps + warm_up);

  const auto backend = open_backend(job.backend);
  const Workspace workspace(*backend);
  Trainer trainer(*backend, {}, setup);
  trainer.store().initialize(1, job.backend.threads);
  std::vector<KeyValues> kept(static_cast<std::size_t>(job.batch),
                              {.positions = c.max_context, .of_block = {}});
  std::vector<double> prefills, times;
  trainer.logits(random_batch(1, prompt, c.vocab, 0).ids_BT);  // chooses how products are computed
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto ids = random_batch(1, prompt, c.vocab, i + 1).ids_BT;
    const double begin = seconds();
    trainer.logits(ids, &kept[i]);
    prefills.push_back(1e3 * (seconds() - begin));
  }
  for (std::int64_t t = 0; t < job.steps + warm_up; ++t) {
    std::vector<Trainer::Next> next;
    for (auto& k : kept) next.push_back({static_cast<std::int32_t>(t % c.vocab), prompt + t, &k});
    const double begin = seconds();
    trainer.extend(next);
    if (t >= warm_up) times.push_back(1e3 * (seconds() - begin));
  }
  const double ms = median(times);
  const double bytes = bytes_of_step(c, trainer.model().spec().parameter_count(), job.batch,
                                     prompt + warm_up + job.steps / 2, setup.compute);
  const nlohmann::ordered_json out = {{"model", job.preset},
                                      {"layers", c.layers},
                                      {"backend", backend->name()},
                                      {"dtype", name_of(setup.compute)},
                                      {"sequences", job.batch},
                                      {"prompt", prompt},
                                      {"prefill_ms", median(prefills)},
                                      {"token_ms", ms},
                                      {"GB_per_token", bytes / 1e9},
                                      {"GB_per_s", bytes / ms / 1e6}};
  fmt::print("{}\n", out.dump());
}

}  // namespace trireme::bench
