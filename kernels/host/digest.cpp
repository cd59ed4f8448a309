#include "lib/base/digest.hpp"

#include <atomic>
#include <cstring>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"

namespace trireme::host {

using namespace digest;

using Word [[gnu::may_alias]] = std::uint32_t;  // a word of an array of any type

[[gnu::noinline]] static std::uint64_t sum_of_blocks(const std::byte* bytes, std::int64_t first,
                                                     std::int64_t blocks) {
  std::array<std::uint64_t, lanes> sums{};
  const auto* w = reinterpret_cast<const Word*>(bytes);
  for (std::int64_t b = 0; b < blocks; ++b, w += words_a_block) {
    constexpr int ahead = 2048 / sizeof(Word);  // the distance of reduce.cpp
    __builtin_prefetch(w + ahead);
    const auto [low, high] = keys_of(first + b);
#pragma omp simd
    for (std::size_t j = 0; j < lanes; ++j)
      sums[j] += static_cast<std::uint64_t>(w[j] + (low + lane_keys[j])) *
                 (w[j + lanes] + (high + lane_keys[j + lanes]));
  }
  std::uint64_t sum = 0;
  for (const auto s : sums) sum += s;
  return sum;
}

static std::uint64_t digest_of(const ConstView& x, std::int64_t first) {
  const auto size = static_cast<std::int64_t>(bytes_of(x.dtype));
  const auto bytes = x.count() * size, whole = bytes / bytes_a_block;
  const auto first_block = first * size / bytes_a_block;
  std::atomic<std::uint64_t> total = 0;
  constexpr std::int64_t chunk = 2048;
  for_chunks(whole, chunk, [&](std::int64_t begin, std::int64_t end) {
    total += sum_of_blocks(x.data + begin * bytes_a_block, first_block + begin, end - begin);
  });
  const auto rest = bytes - whole * bytes_a_block;
  if (rest == 0) return total;
  alignas(bytes_a_block) std::array<std::byte, bytes_a_block> padded{};
  std::memcpy(padded.data(), x.data + whole * bytes_a_block, static_cast<std::size_t>(rest));
  return total + sum_of_blocks(padded.data(), first_block + whole, 1);
}

void run(const kernel::Digest& o, View) {
  auto* out = data<std::uint64_t>(o.out_N);
  for (const auto& [x, first] : o.parts) *out++ = digest_of(x, first);
}

}  // namespace trireme::host
