#include "lib/run/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/rng.hpp"

namespace trireme {

namespace {

// Ids by descending logit, and ids with equal logits in ascending order. A heap is faster than
// sorting, because usually only the first few ids are needed.
class Ranking {
  // Returns the order of the heap, whose largest element is the next id.
  auto less() const {
    return [this](std::int32_t a, std::int32_t b) {
      const double x = logits_[static_cast<std::size_t>(a)],
                   y = logits_[static_cast<std::size_t>(b)];
      return x != y ? x < y : a > b;
    };
  }

 public:
  explicit Ranking(std::span<const double> logits) : logits_(logits), heap_(logits.size()) {
    std::iota(heap_.begin(), heap_.end(), 0);
    std::ranges::make_heap(heap_, less());
    left_ = heap_.size();
  }
  std::int32_t next() {
    std::pop_heap(heap_.begin(), heap_.begin() + static_cast<std::ptrdiff_t>(left_), less());
    return heap_[--left_];
  }

 private:
  std::span<const double> logits_;
  std::vector<std::int32_t> heap_;
  std::size_t left_ = 0;
};

}  // namespace

std::int32_t sample_token(std::span<const double> logits, const Sampling& s,
                          std::int64_t position) {
  require(std::ranges::all_of(logits, [](double z) { return std::isfinite(z); }),
          "the model's logits are not finite: its weights have diverged");
  const auto likeliest = std::ranges::max_element(logits);  // the lowest id among equals
  if (s.temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  const double best = *likeliest;
  const auto weight = [&](std::int32_t id) {
    return std::exp((logits[static_cast<std::size_t>(id)] - best) / s.temperature);
  };
  const auto size = static_cast<std::int64_t>(logits.size());
  const auto most = s.top_k > 0 ? std::min(s.top_k, size) : size;
  Ranking ranking(logits);
  std::vector<std::int32_t> ids;
  std::vector<double> p;
  const auto take = [&] {
    ids.push_back(ranking.next());
    return p.emplace_back(weight(ids.back()));
  };
  double total = 0;
  if (most < size) {
    while (static_cast<std::int64_t>(ids.size()) < most) total += take();
  } else {
    for (std::int32_t id = 0; id < size; ++id) total += weight(id);
  }
  if (s.top_p < 1) {
    double sum = 0;
    std::size_t n = 0;
    while (static_cast<std::int64_t>(n) < most && (n == 0 || sum < s.top_p * total)) {
      if (n == p.size()) take();
      sum += p[n++];
    }
    p.resize(n);
    total = sum;
  }
  const auto stop = s.top_p < 1 ? static_cast<std::int64_t>(p.size()) : most;
  const auto r = philox4x32(hash64(s.seed, "generate"), static_cast<std::uint64_t>(position), 0);
  double left = total * (static_cast<double>(r[0]) + 0.5) * 0x1p-32;
  std::size_t i = 0;
  for (; static_cast<std::int64_t>(i) < stop; ++i) {
    if (i == p.size()) take();
    if ((left -= p[i]) < 0) return ids[i];
  }
  return ids[i - 1];
}

}  // namespace trireme
