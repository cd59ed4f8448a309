// Optimizer steps and moving averages on flat shards. Each weight is read and written once.
#include <utility>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/math/update.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::host {

// Prefetches the copy for writing. The copy is the only array that is written without being read.
template <class T>
static void fetch_ahead(const T* block) {
  for (std::size_t i = 0; i < block_size; i += 64 / sizeof(T)) {
    __builtin_prefetch(block + 8 * block_size + i, 1);
  }
}

static float gradient(float g) {
  return g;
}
static float gradient(std::int64_t quanta) {
  return fixed::to_gradient(quanta);
}

// G is the type in which gradients are stored.
template <class G, class Formula, std::size_t... k>
static void step(const Formula& formula, const kernel::Update::Shard& s,
                 std::index_sequence<k...>) {
  const auto n = s.master_N.count();
  const auto body = [=](float* w, const G* g, auto*... state) {
#pragma omp simd
    for (int l = 0; l < block_size; ++l) formula(w[l], gradient(g[l]), state[l]...);
  };
  if (!s.copy_N)
    return map_blocks(n, body, data<float>(s.master_N), data<G>(s.grad_N),
                      data<float>(s.state_N[k])...);
  by_type(s.copy_N.dtype, "update", [&]<class T>(T) {
    const auto body_and_copy = [&](float* w, T* narrow, const G* g, auto*... state) {
      body(w, g, state...);
      fetch_ahead(narrow);
#pragma omp simd
      for (int l = 0; l < block_size; ++l) put(narrow[l], w[l]);
    };
    map_blocks(n, body_and_copy, data<float>(s.master_N), data<T>(s.copy_N), data<G>(s.grad_N),
               data<float>(s.state_N[k])...);
  });
}

void run(const kernel::Update& o, View) {
  const auto step_all = [&]<class Rule>(const Rule& rule) {
    for (const auto& s : o.shards) {
      expect(s.state_N.size() == Rule::arrays.size(), "a shard has its rule's arrays");
      constexpr auto arrays = std::make_index_sequence<Rule::arrays.size()>();
      const auto formula = math::formula_of(rule, s.factors);
      if (s.grad_N.dtype == DType::i64)
        step<std::int64_t>(formula, s, arrays);
      else
        step<float>(formula, s, arrays);
    }
  };
  std::visit(step_all, o.rule);
}

void run(const kernel::Average& o, View) {
  const auto share = static_cast<float>(o.share);
  for (const auto& s : o.shards)
    map_blocks(
        s.average_N.count(),
        [=](float* average, const float* x) {
#pragma omp simd
          for (int l = 0; l < block_size; ++l)
            average[l] = math::next_average(average[l], share, x[l]);
        },
        data<float>(s.average_N), data<float>(s.x_N));
}

}  // namespace trireme::host
