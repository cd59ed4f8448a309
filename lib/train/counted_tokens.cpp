#include "lib/train/counted_tokens.hpp"

#include <algorithm>

namespace trireme {

bool has_some_apart(const Batch& share) {
  return !share.start_BT.empty() || !share.tokens_B.empty();
}

static bool is_padding(const Batch& b, std::size_t sample, std::int64_t position) {
  return !b.tokens_B.empty() && position >= b.tokens_B[sample];
}

std::vector<std::int32_t> counted_tokens(const Batch& share, const ops::SequenceLayout& layout,
                                         int rank) {
  const auto samples = share.sample_B.size(), all = static_cast<std::size_t>(layout.tokens());
  // This rank's first row of each document, by sample and by the document's first position.
  std::vector<std::int32_t> first(samples * all, -1);
  const auto of_document = [&](std::size_t b, std::int32_t t) -> std::int32_t* {
    if (is_padding(share, b, t)) return nullptr;
    const auto at = b * all + static_cast<std::size_t>(t);
    const auto begin = share.start_BT.empty() ? 0 : share.start_BT[at];
    return &first[b * all + static_cast<std::size_t>(begin)];
  };
  std::int32_t row = 0;
  for (std::size_t b = 0; b < samples; ++b)
    for (const auto t : layout.every_position(rank)) {
      if (auto* const f = of_document(b, t); f && *f < 0) *f = row;
      ++row;
    }
  std::vector<std::int32_t> counted;
  for (int r = 0; r < layout.ranks(); ++r)
    for (std::size_t b = 0; b < samples; ++b)
      for (const auto t : layout.every_position(r)) {
        const auto* const f = of_document(b, t);
        counted.push_back(f ? *f : -1);
      }
  return counted;
}

std::int64_t count_tokens(const Batch& share, const ops::SequenceLayout& layout, int rank) {
  if (share.tokens_B.empty()) return std::ssize(share.ids_BT);
  std::int64_t n = 0;
  for (std::size_t b = 0; b < share.sample_B.size(); ++b)
    n += std::ranges::count_if(layout.every_position(rank),
                               [&](auto t) { return !is_padding(share, b, t); });
  return n;
}

}  // namespace trireme
