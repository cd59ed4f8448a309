#include "lib/run/sample.hpp"

#include "lib/run/generation.hpp"

namespace trireme {

bool sample_is_due(const EvaluateConfig& e, std::int64_t step, std::int64_t total_steps) {
  const auto every = e.sample_every > 0 ? e.sample_every : e.every_steps;
  return !e.sample_prompt.empty() && step > 0 &&
         (step == total_steps || (every > 0 && step % every == 0));
}

std::optional<std::string> sample_text(Trainer& trainer, const Tokenizer& tokenizer,
                                       const EvaluateConfig& e,
                                       const std::function<bool()>& interrupted) {
  Request request{prompt_ids(tokenizer, e.sample_prompt),
                  e.sample_tokens,
                  {.temperature = e.sample_temperature}};
  if (request.ids.empty()) return std::nullopt;
  bool left_off = false;
  GenerationSettings settings{.vocab = tokenizer.vocab()};
  // Called on every rank after each token.
  settings.stops = [&](std::size_t, std::span<const std::int32_t>) {
    double stop = interrupted && interrupted();
    trainer.axes().world.all_reduce_max({&stop, 1});
    return left_off = stop > 0;
  };
  const auto written = generate(trainer, {&request, 1}, settings);
  if (left_off) return std::nullopt;
  request.ids.insert(request.ids.end(), written[0].ids.begin(), written[0].ids.end());
  return tokenizer.decode(request.ids);
}

}  // namespace trireme
