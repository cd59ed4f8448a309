// Optimizer steps over flat shards: master weights, moments and the compute type's copy in one
// pass, all shards in a launch or two.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/parts.cuh"

namespace trireme::cuda {
namespace {

constexpr int step = 4;  // 16 bytes of f32
constexpr std::int64_t part_size = 1 << 12;
constexpr int most = 32;

template <int N, class T>
__device__ void update(const SgdShard<T>& s, std::int64_t at) {
  auto w = load<N>(s.master + at);
  const auto g = load<N>(s.grad + at);
#pragma unroll
  for (int k = 0; k < N; ++k) w.v[k] = s.update(w.v[k], g.v[k]);
  store<N>(s.master + at, w);
  if (s.copy != nullptr) store<N>(s.copy + at, w);
}

template <int N, class T>
__device__ void update(const AdamWShard<T>& s, std::int64_t at) {
  auto w = load<N>(s.master + at), m = load<N>(s.m + at), v = load<N>(s.v + at);
  const auto g = load<N>(s.grad + at);
#pragma unroll
  for (int k = 0; k < N; ++k) s.update(w.v[k], m.v[k], v.v[k], g.v[k]);
  store<N>(s.master + at, w);
  store<N>(s.m + at, m);
  store<N>(s.v + at, v);
  if (s.copy != nullptr) store<N>(s.copy + at, w);
}

template <class T>
__device__ bool in_packs(const SgdShard<T>& s) {
  return aligned(s.master, s.copy, s.grad);
}
template <class T>
__device__ bool in_packs(const AdamWShard<T>& s) {
  return aligned(s.master, s.m, s.v, s.copy, s.grad);
}

// Whole packs, then the rest.
template <class Shard>
__global__ void __launch_bounds__(block_threads) update_parts(Parts<Shard, most, part_size> parts) {
  const auto [i, begin, end] = parts.of_block();
  const Shard s = parts.array[i];
  const auto packed = in_packs(s) ? end - (end - begin) % step : begin;
  for (auto at = begin + threadIdx.x * step; at < packed; at += block_threads * step)
    update<step>(s, at);
  for (auto at = packed + threadIdx.x; at < end; at += block_threads) update<1>(s, at);
}

template <class Shard>
void update_all(Stream stream, const char* name, std::span<const Shard> shards) {
  in_parts<most, part_size>(shards, [&](const auto& parts, std::size_t) {
    if (parts.blocks() > 0)
      start(name, update_parts<Shard>, parts.blocks(), block_threads, 0, stream, parts);
  });
}

}  // namespace

template <class T>
void sgd(Stream stream, std::span<const SgdShard<T>> shards) {
  update_all(stream, "sgd", shards);
}

template <class T>
void adamw(Stream stream, std::span<const AdamWShard<T>> shards) {
  update_all(stream, "adamw", shards);
}

template void sgd(Stream, std::span<const SgdShard<float>>);
template void sgd(Stream, std::span<const SgdShard<bf16>>);
template void adamw(Stream, std::span<const AdamWShard<float>>);
template void adamw(Stream, std::span<const AdamWShard<bf16>>);

}  // namespace trireme::cuda
