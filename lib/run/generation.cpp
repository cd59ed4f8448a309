#include "lib/run/generation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace trireme {

std::int32_t sample_token(std::span<const double> logits, const Sampling& s,
                          std::int64_t position) {
  require(std::ranges::all_of(logits, [](double z) { return std::isfinite(z); }),
          "the model's logits are not finite: its weights have diverged");
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Most likely first; ties by id, so that the choice is the same everywhere.
  std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  const double best = logits[static_cast<std::size_t>(order[0])];
  if (s.temperature == 0) return order[0];
  if (s.top_k > 0 && s.top_k < static_cast<std::int64_t>(order.size()))
    order.resize(static_cast<std::size_t>(s.top_k));
  std::vector<double> p;
  for (const auto id : order)
    p.push_back(std::exp((logits[static_cast<std::size_t>(id)] - best) / s.temperature));
  double total = std::accumulate(p.begin(), p.end(), 0.0);
  if (s.top_p < 1) {
    double sum = 0;
    std::size_t n = 0;
    while (n < p.size() && sum < s.top_p * total) sum += p[n++];
    p.resize(std::max<std::size_t>(1, n));
    total = sum;
  }
  const auto r = philox4x32(hash64(s.seed, "generate"), static_cast<std::uint64_t>(position), 0);
  double left = total * (static_cast<double>(r[0]) + 0.5) * 0x1p-32;
  for (std::size_t i = 0; i < p.size(); ++i)
    if ((left -= p[i]) < 0) return order[i];
  return order[p.size() - 1];
}

// One rank of the last stage samples; the sum over ranks takes its token, or its failure, to all.
static std::int32_t agree_on_token(const Communicator& world, std::span<const double> logits,
                                   const Sampling& sampling, std::int64_t position) {
  std::array<double, 2> drawn{};  // token, failed
  std::string why;
  if (!logits.empty()) {
    try {
      drawn[0] = sample_token(logits, sampling, position);
    } catch (const Error& e) {
      drawn[1] = 1;
      why = e.what();
    }
  }
  world.all_reduce(drawn);
  require(drawn[1] == 0, "{}",
          why.empty() ? "the last stage could not sample a token: its message says why" : why);
  return static_cast<std::int32_t>(drawn[0]);
}

void generate(Trainer& trainer, std::vector<std::int32_t>& ids, std::int64_t count,
              const Sampling& sampling, std::int32_t vocab, const std::function<void()>& emit) {
  const auto context = static_cast<std::size_t>(trainer.model().spec().config.context);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto seen = std::span(ids).last(std::min(context, ids.size()));
    auto logits = trainer.logits(seen);
    logits.resize(std::min(logits.size(), static_cast<std::size_t>(vocab)));
    ids.push_back(agree_on_token(trainer.axes().world, logits, sampling,
                                 static_cast<std::int64_t>(ids.size())));
    emit();
  }
}

}  // namespace trireme
