#include "lib/run/generation.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "lib/comm/agree.hpp"

namespace trireme {

std::string_view name_of(FinishReason e) {
  switch (e) {
    case FinishReason::length:
      return "length";
    case FinishReason::stop:
      return "stop";
    case FinishReason::end_of_text:
      return "end of text";
  }
  return {};
}

namespace {

struct Sequence {
  std::size_t request;
  std::vector<std::int32_t> ids;
  // Cached keys and values. Empty on other data ranks, and if the sequence exceeds the context.
  KeyValues kept{};
};
using Active = std::vector<std::unique_ptr<Sequence>>;

// A generator of all requested sequences. Every rank knows every sequence, and therefore knows what
// all ranks do next. A data rank computes only its own sequences.
class Generator {
 public:
  Generator(Trainer& t, std::span<const Request> requests, const GenerationSettings& s)
      : trainer_(t),
        requests_(requests),
        settings_(s),
        context_(t.model().context()),
        caches_(s.cache),
        active_(static_cast<std::size_t>(t.axes().grid.data)),
        results_(requests.size()) {}

  std::vector<Continued> run() {
    while (admit() || std::ranges::any_of(active_, [](const auto& a) { return !a.empty(); })) {
      read_again();
      extend();
    }
    return std::move(results_);
  }

 private:
  using Drawn = std::vector<std::vector<Sequence*>>;  // by data rank: sequences that get a token
  std::size_t me() const { return static_cast<std::size_t>(trainer_.axes().at.data); }

  // Starts new sequences while there is room, one at a time on each data rank. Returns true if any
  // sequence was started.
  bool admit() {
    bool any = false;
    while (next_ < requests_.size()) {
      Drawn read(active_.size());
      for (std::size_t d = 0; d < active_.size() && next_ < requests_.size(); ++d) {
        if (static_cast<std::int64_t>(active_[d].size()) >= settings_.batch) continue;
        active_[d].push_back(std::make_unique<Sequence>(Sequence{next_, requests_[next_].ids}));
        read[d] = {active_[d].back().get()};
        ++next_;
      }
      if (std::ranges::all_of(read, [](const auto& s) { return s.empty(); })) break;
      whole_pass(read);
      any = true;
    }
    return any;
  }

  // Computes the next tokens of sequences without a cache: all sequences if caches are off,
  // otherwise those that exceed the context.
  void read_again() {
    std::vector<std::vector<Sequence*>> again(active_.size());
    std::size_t rounds = 0;
    for (std::size_t d = 0; d < active_.size(); ++d) {
      for (const auto& s : active_[d])
        if (!extendable(*s)) again[d].push_back(s.get());
      rounds = std::max(rounds, again[d].size());
    }
    for (std::size_t r = 0; r < rounds; ++r) {
      Drawn read(active_.size());
      for (std::size_t d = 0; d < active_.size(); ++d)
        if (r < again[d].size()) read[d] = {again[d][r]};
      whole_pass(read);
    }
  }

  bool extendable(const Sequence& s) const {
    return caches_ && static_cast<std::int64_t>(s.ids.size()) <= context_ &&
           s.ids.size() > requests_[s.request].ids.size();
  }

  // Reads the last `context` tokens of at most one sequence per data rank. A rank without a
  // sequence reads one token, because others may need its share of the weights.
  void whole_pass(const Drawn& read) {
    std::vector<std::vector<double>> logits;
    const std::int32_t nothing = 0;
    if (read[me()].empty()) {
      trainer_.logits({&nothing, 1});
    } else {
      auto& s = *read[me()][0];
      const auto n = static_cast<std::int64_t>(s.ids.size());
      const auto end =
          static_cast<std::int64_t>(requests_[s.request].ids.size()) + requests_[s.request].tokens;
      s.kept = {.positions = std::min(context_, end), .of_block = {}};
      const bool keep = caches_ && n < context_;
      auto row =
          trainer_.logits(std::span(s.ids).last(static_cast<std::size_t>(std::min(context_, n))),
                          keep ? &s.kept : nullptr);
      if (!row.empty()) logits.push_back(std::move(row));
    }
    draw(read, logits);
  }

  void extend() {
    Drawn rows(active_.size());
    bool any = false;
    for (std::size_t d = 0; d < active_.size(); ++d)
      for (const auto& s : active_[d])
        if (extendable(*s)) {
          rows[d].push_back(s.get());
          any = true;
        }
    if (!any) return;
    std::vector<std::vector<double>> logits;
    const std::int32_t nothing = 0;
    if (rows[me()].empty()) {
      trainer_.logits({&nothing, 1});
    } else {
      std::vector<Trainer::Next> next;
      for (auto* s : rows[me()])
        next.push_back({s->ids.back(), static_cast<std::int64_t>(s->ids.size()) - 1, &s->kept});
      logits = trainer_.extend(next);
    }
    draw(rows, logits);
  }

  // Samples the next tokens and sends them to all ranks. For each data index, one rank has the
  // logits and samples. The sum over ranks carries its tokens, or its failure, to all ranks.
  void draw(const Drawn& all, std::span<std::vector<double>> logits) {
    std::vector<double> drawn{0};  // failure flag, then tokens by data rank
    std::string why;
    for (std::size_t d = 0; d < all.size(); ++d)
      for (std::size_t i = 0; i < all[d].size(); ++i) {
        drawn.push_back(0);
        if (d != me() || logits.empty()) continue;
        const auto& s = *all[d][i];
        const auto usable = std::min(logits[i].size(), static_cast<std::size_t>(settings_.vocab));
        try {
          drawn.back() =
              sample_token(std::span(logits[i]).first(usable), requests_[s.request].sampling,
                           static_cast<std::int64_t>(s.ids.size()));
        } catch (const Error& e) {
          drawn[0] = 1;
          why = e.what();
        }
      }
    const auto& world = trainer_.axes().world;
    world.all_reduce(drawn);
    if (drawn[0] > 0)
      throw SharedError(!why.empty() ? why
                                     : "a rank could not sample a token: its logits are not "
                                       "finite");
    auto token = drawn.begin() + 1;
    for (std::size_t d = 0; d < all.size(); ++d)
      for (auto* s : all[d]) append(d, *s, static_cast<std::int32_t>(*token++));
  }

  void append(std::size_t d, Sequence& s, std::int32_t token) {
    const auto& request = requests_[s.request];
    auto& result = results_[s.request];
    if (std::ranges::find(settings_.ends, token) != settings_.ends.end())
      return end(d, s, FinishReason::end_of_text);
    s.ids.push_back(token);
    result.ids.push_back(token);
    if (static_cast<std::int64_t>(s.ids.size()) > context_) s.kept = {};
    if (settings_.emit) settings_.emit(s.request, result.ids);
    if (settings_.stops && settings_.stops(s.request, result.ids))
      return end(d, s, FinishReason::stop);
    if (static_cast<std::int64_t>(result.ids.size()) >= request.tokens)
      end(d, s, FinishReason::length);
  }

  void end(std::size_t d, Sequence& s, FinishReason how) {
    results_[s.request].ended = how;
    if (settings_.ended) settings_.ended(s.request, results_[s.request]);
    std::erase_if(active_[d], [&](const auto& other) { return other.get() == &s; });
  }

  Trainer& trainer_;
  std::span<const Request> requests_;
  const GenerationSettings& settings_;
  std::int64_t context_;
  bool caches_;
  std::vector<Active> active_;  // by data rank
  std::size_t next_ = 0;        // next request
  std::vector<Continued> results_;
};

}  // namespace

void require_ids(std::span<const std::int32_t> ids, std::int64_t vocab) {
  for (const auto id : ids)
    require(id >= 0 && id < vocab,
            "the tokenizer returned the id {}, but the model's ids are below {}: the tokenizer "
            "belongs to another model, or has more tokens than this one",
            id, vocab);
}

static void require_sequence(const Request& r, std::int64_t vocab) {
  require(!r.ids.empty() && r.tokens >= 1 && r.tokens <= most_tokens,
          "generation needs a prompt of at least one token, and 1 to {} tokens to generate",
          most_tokens);
  require_ids(r.ids, vocab);
}

std::vector<Continued> generate(Trainer& trainer, std::span<const Request> requests,
                                const GenerationSettings& settings) {
  for (const auto& r : requests) require_sequence(r, trainer.model().spec().config.vocab);
  return Generator(trainer, requests, settings).run();
}

}  // namespace trireme
