#include "lib/run/multiple_choice.hpp"

#include <algorithm>
#include <cmath>

#include "lib/comm/agree.hpp"
#include "lib/run/generation.hpp"

namespace trireme {

// Returns the ids that precede an ending if there is no context.
static std::vector<std::int32_t> ids_of_no_context(const Tokenizer& tokenizer) {
  if (const auto begin = tokenizer.begin()) return {*begin};
  auto ids = prompt_ids(tokenizer, "");
  require(
      !ids.empty(),
      "a question without a context needs a tokenizer with a begin-of-text or end-of-text token");
  return ids;
}

// Returns the prefix followed by `ids`, or only `ids` if they already begin with the prefix.
static std::vector<std::int32_t> behind(std::vector<std::int32_t> prefix,
                                        const std::vector<std::int32_t>& ids) {
  if (ids.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), ids.begin()))
    return ids;
  prefix.insert(prefix.end(), ids.begin(), ids.end());
  return prefix;
}

EncodedEnding encode_ending(const Tokenizer& tokenizer, std::string_view context,
                            std::string_view ending) {
  const auto kept = context.find_last_not_of(" \t\n\v\f\r") + 1;  // 0 if no context remains
  std::string text(context.substr(kept));
  if (!ending.starts_with(' ')) text += ' ';
  text += ending;
  context = context.substr(0, kept);
  const auto prefix = context.empty() ? ids_of_no_context(tokenizer) : tokenizer.prefix();
  EncodedEnding e;
  e.first = context.empty() ? prefix.size() : behind(prefix, tokenizer.encode(context)).size();
  e.ids = behind(prefix, tokenizer.encode(std::string(context) + text));
  require(e.first >= 1 && e.first < e.ids.size(), "the ending '{}' contains no token", ending);
  return e;
}

// Returns the sequence as a sample of `tokens` positions. Only tokens of the ending are targets.
static Batch sample_of(const EncodedEnding& e, std::int64_t tokens) {
  const auto n = static_cast<std::size_t>(tokens);
  Batch b{std::vector<std::int32_t>(n, 0), std::vector<std::int32_t>(n, no_target), {0}, 0};
  const auto skipped = e.ids.size() > n + 1 ? e.ids.size() - n - 1 : 0;
  for (auto i = skipped; i + 1 < e.ids.size(); ++i) {
    b.ids_BT[i - skipped] = e.ids[i];
    if (i + 1 >= e.first) b.targets_BT[i - skipped] = e.ids[i + 1];
  }
  b.valid = static_cast<std::int64_t>(e.ids.size() - e.first);
  return b;
}

std::vector<std::vector<Score>> score(Trainer& trainer,
                                      std::span<const std::vector<EncodedEnding>> questions) {
  const auto& axes = trainer.axes();
  const auto context = trainer.model().context();
  // Index of each question's first ending among all endings.
  std::vector<std::size_t> begins;
  std::size_t all = 0;
  for (const auto& q : questions) {
    for (const auto& e : q) {
      require_ids(e.ids, trainer.model().spec().config.vocab);
      const auto tokens = e.ids.size() - e.first;
      if (tokens > static_cast<std::size_t>(context))
        throw SharedError(fmt::format(
            "an ending of {} tokens is longer than the model's context of {}", tokens, context));
    }
    begins.push_back(all);
    all += q.size();
  }
  std::vector<double> losses(all, 0);
  const auto stride = static_cast<std::size_t>(axes.grid.data);
  for (std::size_t q = static_cast<std::size_t>(axes.at.data); q - q % stride < questions.size();
       q += stride) {
    std::vector<Batch> mine;
    if (q < questions.size()) {
      std::size_t longest = 0;
      for (const auto& e : questions[q]) longest = std::max(longest, e.ids.size() - 1);
      // Few different shapes, which the sequence-parallel ranks can divide evenly.
      const std::int64_t step = 64 * axes.grid.seq;
      const auto tokens =
          std::min(context, (static_cast<std::int64_t>(longest) + step - 1) / step * step);
      for (const auto& e : questions[q]) mine.push_back(trainer.share(sample_of(e, tokens)));
    }
    const auto parts = trainer.losses(mine);
    std::ranges::copy(
        parts, losses.begin() + static_cast<std::ptrdiff_t>(q < questions.size() ? begins[q] : 0));
  }
  axes.world.all_reduce(losses);
  if (!std::ranges::all_of(losses, [](double x) { return std::isfinite(x); }))
    throw SharedError(
        "the loss of an ending is not finite: the model's weights are not finite either");
  std::vector<std::vector<Score>> scores;
  auto loss = losses.begin();
  for (const auto& q : questions) {
    auto& of = scores.emplace_back();
    for (const auto& e : q)
      of.push_back({-*loss++, static_cast<std::int64_t>(e.ids.size() - e.first)});
  }
  return scores;
}

}  // namespace trireme
