#include "lib/run/sample.hpp"

#include <fmt/format.h>

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
  Request request{tokenizer.prefix(), e.sample_tokens, {.temperature = e.sample_temperature}};
  tokenizer.encode(e.sample_prompt, TextPlace::start, request.ids);
  if (request.ids.empty()) request.ids.push_back(tokenizer.separator().value_or(0));
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

// Bytes of the UTF-8 character that begins here; 0: none does (Unicode, table 3-7).
static std::size_t character_at(std::string_view s) {
  const auto byte = [&](std::size_t i) {
    return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U;
  };
  const auto next = [&](std::size_t i, unsigned from = 0x80, unsigned to = 0xbf) {
    return byte(i) >= from && byte(i) <= to;
  };
  const unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xc2 && b <= 0xdf) return next(1) ? 2 : 0;
  if (b >= 0xe0 && b <= 0xef)
    return next(1, b == 0xe0 ? 0xa0 : 0x80, b == 0xed ? 0x9f : 0xbf) && next(2) ? 3 : 0;
  if (b >= 0xf0 && b <= 0xf4)
    return next(1, b == 0xf0 ? 0x90 : 0x80, b == 0xf4 ? 0x8f : 0xbf) && next(2) && next(3) ? 4 : 0;
  return 0;
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
