// Optimizer steps and moving averages on flat shards. One pass of a step updates master weights,
// moments and the copy in the compute type. One or two launches process all shards.
#include <algorithm>
#include <utility>

#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/parts.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/update.hpp"

namespace trireme::cuda {
namespace {

constexpr int step = 4;  // 16 bytes of f32
constexpr std::int64_t part_size = 1 << 12;
constexpr int most = 32;

// Arguments of a launch for each shard. `copy` may be null.
template <class T, class F>
struct KernelArg {
  float* master;
  T* copy;
  const float* grad;
  float* state[most_update_arrays];
  std::int64_t count;
  F formula;
};

template <int N, class T, class F, std::size_t... k>
__device__ void update(const KernelArg<T, F>& s, std::int64_t at, std::index_sequence<k...>) {
  auto w = load<N>(s.master + at);
  const auto g = load<N>(s.grad + at);
  decltype(w) state[sizeof...(k) + 1] = {load<N>(s.state[k] + at)...};
#pragma unroll
  for (int i = 0; i < N; ++i) s.formula(w.v[i], g.v[i], state[k].v[i]...);
  store<N>(s.master + at, w);
  (store<N>(s.state[k] + at, state[k]), ...);
  if (s.copy != nullptr) store<N>(s.copy + at, w);
}

// Updates whole packs first, and then the remaining elements.
template <class T, class F, std::size_t... k>
__global__ void __launch_bounds__(block_threads)
    update_parts(Parts<KernelArg<T, F>, most, part_size> parts) {
  constexpr std::index_sequence<k...> arrays;
  const auto [i, begin, end] = parts.of_block();
  const KernelArg<T, F> s = parts.array[i];
  const bool in_packs = aligned(s.master, s.copy, s.grad, s.state[k]...);
  const auto packed = in_packs ? end - (end - begin) % step : begin;
  for (auto at = begin + threadIdx.x * step; at < packed; at += block_threads * step)
    update<step>(s, at, arrays);
  for (auto at = packed + threadIdx.x; at < end; at += block_threads) update<1>(s, at, arrays);
}

template <class T, class Rule, class F, std::size_t... k>
void update_all(Stream stream, const std::vector<KernelArg<T, F>>& shards,
                std::index_sequence<k...>) {
  in_parts<most, part_size>(shards, [&](const auto& parts, std::size_t) {
    if (parts.blocks() > 0)
      start(Rule::name, update_parts<T, F, k...>, parts.blocks(), block_threads, 0, stream, parts);
  });
}

// Calls f(T{}) with the type of the copies. If there are no copies, no kernel uses the type.
template <class F>
void with_type_of_copies(const kernel::Update& o, const F& f) {
  const auto with_copy =
      std::ranges::find_if(o.shards, [](const auto& s) { return static_cast<bool>(s.copy_N); });
  with_type(with_copy == o.shards.end() ? DType::bf16 : with_copy->copy_N.dtype, f);
}

// Arguments of a launch for each shard of averages.
struct AverageArg {
  float* average;
  const float* x;
  std::int64_t count;
};

template <int N>
__device__ void average(const AverageArg& s, float share, std::int64_t at) {
  auto to = load<N>(s.average + at);
  const auto x = load<N>(s.x + at);
#pragma unroll
  for (int i = 0; i < N; ++i) to.v[i] = math::next_average(to.v[i], share, x.v[i]);
  store<N>(s.average + at, to);
}

__global__ void __launch_bounds__(block_threads)
    average_parts(Parts<AverageArg, most, part_size> parts, float share) {
  const auto [i, begin, end] = parts.of_block();
  const AverageArg s = parts.array[i];
  const auto packed = aligned(s.average, s.x) ? end - (end - begin) % step : begin;
  for (auto at = begin + threadIdx.x * step; at < packed; at += block_threads * step)
    average<step>(s, share, at);
  for (auto at = packed + threadIdx.x; at < end; at += block_threads) average<1>(s, share, at);
}

}  // namespace

void run(const kernel::Average& o, const OnStream& on) {
  std::vector<AverageArg> args;
  for (const auto& s : o.shards)
    args.push_back({at<float>(s.average_N), at<float>(s.x_N), s.average_N.count()});
  in_parts<most, part_size>(args, [&](const auto& parts, std::size_t) {
    if (parts.blocks() > 0)
      start("average", average_parts, parts.blocks(), block_threads, 0, on.stream, parts,
            static_cast<float>(o.share));
  });
}

void run(const kernel::Update& o, const OnStream& on) {
  with_type_of_copies(o, [&]<class T>(T) {
    const auto launch = [&]<class Rule>(const Rule& rule) {
      using F = decltype(math::formula_of(rule, {}));
      std::vector<KernelArg<T, F>> args;
      for (const auto& s : o.shards) {
        auto& one = args.emplace_back(KernelArg<T, F>{at<float>(s.master_N),
                                                      at<T>(s.copy_N),
                                                      at<float>(s.grad_N),
                                                      {},
                                                      s.master_N.count(),
                                                      math::formula_of(rule, s.factors)});
        expect(s.state_N.size() == Rule::arrays.size(), "a shard has its rule's arrays");
        std::ranges::transform(s.state_N, one.state, [](const View& v) { return at<float>(v); });
      }
      update_all<T, Rule>(on.stream, args, std::make_index_sequence<Rule::arrays.size()>());
    };
    std::visit(launch, o.rule);
  });
}

}  // namespace trireme::cuda
