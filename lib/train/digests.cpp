#include "lib/train/digests.hpp"

#include <iterator>
#include <utility>

namespace trireme {

// Sums digests over ranks. Each digest is sent as two 32-bit halves, whose sums over up to 2^21
// ranks are exact in double, and a flag that says whether the rank has a digest.
DigestTable sum_over_ranks(const Communicator& ranks, DigestTable table) {
  std::vector<double> sums;
  for (const auto& of_array : table.of)
    for (const auto& d : of_array)
      for (const double x : {static_cast<double>(d.value_or(0) & 0xffffffffU),
                             static_cast<double>(d.value_or(0) >> 32), double(d.has_value())})
        sums.push_back(x);
  ranks.all_reduce(sums);
  auto at = sums.begin();
  for (auto& of_array : table.of)
    for (auto& d : of_array) {
      const auto low = static_cast<std::uint64_t>(*at++), high = static_cast<std::uint64_t>(*at++);
      d = *at++ > 0 ? std::optional(low + (high << 32)) : std::nullopt;
    }
  return table;
}

DigestTable joined(DigestTable a, DigestTable b) {
  std::ranges::move(b.arrays, std::back_inserter(a.arrays));
  std::ranges::move(b.of, std::back_inserter(a.of));
  return a;
}

}  // namespace trireme
