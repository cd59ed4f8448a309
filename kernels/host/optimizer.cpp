// Updates of flat shards, each weight read and written once.
#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/math/update_factors.hpp"

namespace trireme::host {

// The copy is the one array whose lines nothing reads before they are written.
template <class T>
static void fetch_ahead(const T* block) {
  for (std::size_t i = 0; i < block_size; i += 64 / sizeof(T)) {
    __builtin_prefetch(block + 8 * block_size + i, 1);
  }
}

static void step(const kernel::Sgd::Shard& s) {
  const auto& [master, copy, grad, factors] = s;
  const auto update = math::update_of(factors);
  const auto body = [=](float* w, const float* g) {
#pragma omp simd
    for (int l = 0; l < block_size; ++l) w[l] = update(w[l], g[l]);
  };
  if (!copy) return map_blocks(master.count(), body, data<float>(master), data<float>(grad));
  by_type(copy.dtype, "sgd", [&]<class T>(T) {
    const auto body_and_copy = [&](float* w, T* narrow, const float* g) {
      body(w, g);
      fetch_ahead(narrow);
#pragma omp simd
      for (int l = 0; l < block_size; ++l) put(narrow[l], w[l]);
    };
    map_blocks(master.count(), body_and_copy, data<float>(master), data<T>(copy),
               data<float>(grad));
  });
}

static void step(const kernel::AdamW::Shard& s) {
  const auto& [master, m, v, copy, grad, factors] = s;
  const auto update = math::update_of(factors);
  const auto body = [=](float* w, float* mean, float* square, const float* g) {
#pragma omp simd
    for (int l = 0; l < block_size; ++l) update(w[l], mean[l], square[l], g[l]);
  };
  if (!copy) {
    return map_blocks(master.count(), body, data<float>(master), data<float>(m), data<float>(v),
                      data<float>(grad));
  }
  by_type(copy.dtype, "adamw", [&]<class T>(T) {
    const auto body_and_copy = [&](float* w, float* mean, float* square, T* narrow,
                                   const float* g) {
      body(w, mean, square, g);
      fetch_ahead(narrow);
#pragma omp simd
      for (int l = 0; l < block_size; ++l) put(narrow[l], w[l]);
    };
    map_blocks(master.count(), body_and_copy, data<float>(master), data<float>(m), data<float>(v),
               data<T>(copy), data<float>(grad));
  });
}

void run(const kernel::Sgd& o, View) {
  for (const auto& s : o.shards) step(s);
}

void run(const kernel::AdamW& o, View) {
  for (const auto& s : o.shards) step(s);
}

}  // namespace trireme::host
