// Digests of many arrays together. The first kernel sums parts of a fixed size, and the second
// adds the parts of each array.
#include "kernels/cuda/kernels/parts.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "lib/base/digest.hpp"

namespace trireme::cuda {
namespace {

using namespace digest;
using Sum = unsigned long long;

constexpr std::int64_t part_size = 1 << 10;  // in digest blocks
constexpr int most = 64;

// Blocks of one array, from the array's digest block `first` on. `data` is aligned to 4 bytes.
struct Blocks {
  const std::byte* data;
  std::int64_t bytes, first, count;
};
using Arrays = Parts<Blocks, most, part_size>;

__device__ std::uint32_t word_of(const Blocks& a, std::int64_t word) {
  const auto* const p = a.data + 4 * word;
  const auto left = a.bytes - 4 * word;
  if (left >= 4) return *reinterpret_cast<const std::uint32_t*>(p);
  std::uint32_t w = 0;
  for (int k = 0; k < static_cast<int>(left); ++k) w |= static_cast<std::uint32_t>(p[k]) << 8 * k;
  return w;
}

// Computes the sums of parts. Each thread computes one lane of every 32nd block.
__global__ void __launch_bounds__(block_threads) digest_blocks(Sum* out_P, Arrays arrays) {
  const auto [i, begin, end] = arrays.of_block();
  const auto& a = arrays.array[i];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const auto key_a = lane_key(lane), key_b = lane_key(lane + lanes);
  Sum sum[1] = {0};
  for (auto b = begin + threadIdx.x / lanes; b < end; b += block_threads / lanes) {
    const auto keys = keys_of(a.first + b);
    const auto word = b * words_a_block + lane;
    sum[0] += static_cast<Sum>(word_of(a, word) + (keys.low + key_a)) *
              (word_of(a, word + lanes) + (keys.high + key_b));
  }
  block_sums<block_threads>(sum);
  if (threadIdx.x == 0) out_P[blockIdx.x] = sum[0];
}

__global__ void __launch_bounds__(block_threads)
    add_digests(Sum* out_N, const Sum* x_P, Arrays arrays) {
  const auto i = blockIdx.x;
  Sum sum[1] = {0};
  for (int part = arrays.first[i] + static_cast<int>(threadIdx.x); part < arrays.first[i + 1];
       part += block_threads)
    sum[0] += x_P[part];
  block_sums<block_threads>(sum);
  if (threadIdx.x == 0) out_N[i] = sum[0];
}

}  // namespace

void run(const kernel::Digest& o, const OnStream& on) {
  std::vector<Blocks> all;
  std::size_t parts = 0;
  for (const auto& [x, first] : o.parts) {
    const auto size = static_cast<std::int64_t>(bytes_of(x.dtype)), bytes = x.count() * size;
    const auto count = (bytes + bytes_a_block - 1) / bytes_a_block;
    all.push_back({x.data, bytes, first * size / bytes_a_block, count});
    parts += blocks_for(count, part_size);
  }
  auto* const sums = scratch<Sum>(o, on, parts * sizeof(Sum));
  in_parts<most, part_size>(all, [&](const Arrays& arrays, std::size_t begin) {
    if (arrays.blocks() > 0)
      start("digest", digest_blocks, arrays.blocks(), block_threads, 0, on.stream, sums, arrays);
    start("digest", add_digests, static_cast<unsigned>(arrays.arrays), block_threads, 0, on.stream,
          reinterpret_cast<Sum*>(at<std::int64_t>(o.out_N)) + begin, sums, arrays);
  });
}

}  // namespace trireme::cuda
