#include "lib/run/sample.hpp"

#include <fmt/format.h>

#include "lib/run/generation.hpp"
#include "lib/tokenizer/utf8.hpp"

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
  // Asked on every rank after each token.
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

// Bytes of the UTF-8 character that begins here; 0: none does.
static std::size_t character_at(std::string_view s) {
  const auto first = s.substr(0, utf8_length(s[0]));
  return well_formed_bytes(first) == first.size() ? first.size() : 0;
}

std::string in_one_line(const std::string& text) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const auto n = character_at(std::string_view(text).substr(at));
    const auto c = static_cast<unsigned char>(text[at]);
    const bool control = c < 0x20 || c == 0x7f ||
                         (n == 2 && c == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (c == '\n')
      line += "\\n";
    else if (c == '\t')
      line += "\\t";
    else if (c == '\\')
      line += "\\\\";
    else if (n == 0 || control)
      for (std::size_t i = 0; i < std::max<std::size_t>(n, 1); ++i)
        line += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + i]));
    else
      line += text.substr(at, n);
    at += std::max<std::size_t>(n, 1);
  }
  return line;
}

}  // namespace trireme
