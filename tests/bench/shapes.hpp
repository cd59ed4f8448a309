#pragma once
// What the floor and the flat step share: the timed shapes, memory, clock and medians.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/rng.hpp"
#include "lib/base/view.hpp"

namespace trireme::bench {

// A GPT-2: B samples of T tokens, C wide, four times that inside, tied table of V rows.
struct Model {
  std::string_view name;
  std::int64_t layers, heads, C, T, B, V;

  std::int64_t rows() const { return B * T; }
  std::int64_t head_dim() const { return C / heads; }
  std::int64_t parameters() const { return layers * (12 * C * C + 13 * C) + V * C + T * C + 2 * C; }
  // 6N for the products with weights, 6 L C T a token for causal attention.
  double flops() const {
    return static_cast<double>(rows()) *
           (6.0 * static_cast<double>(parameters()) + 6.0 * static_cast<double>(layers * C * T));
  }
};

inline constexpr Model models[] = {
    {"quick", 4, 4, 128, 64, 12, 256},
    {"124M", 12, 12, 768, 64, 4, 50304},
    {"124M-256", 12, 12, 768, 256, 4, 50304},
};

struct Job {
  Model model;
  DType dtype;
};

// From `PROGRAM MODEL DTYPE`.
inline Job parse(int argc, char** argv) {
  const std::string_view name = argc == 3 ? argv[1] : "", type = argc == 3 ? argv[2] : "";
  for (const auto& m : models) {
    if (m.name == name && type == "f32") return {m, DType::f32};
    if (m.name == name && type == "bf16") return {m, DType::bf16};
  }
  fail("usage: {} quick|124M|124M-256 f32|bf16", argv[0]);
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> t) {
  std::nth_element(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(t.size() / 2), t.end());
  return t[t.size() / 2];
}

// Memory as the arena has it: mapped, in huge pages where the system gives them, never returned.
// Starts differ within a page, else element i of every array would fight for one place in L1.
inline View take(DType t, const Shape& s) {
  const auto huge = std::size_t{2} << 20;
  const auto bytes =
      (static_cast<std::size_t>(s.count()) * bytes_of(t) + huge - 1) / huge * huge + 2 * huge;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(p != MAP_FAILED, "no {} bytes of memory", bytes);
  madvise(p, bytes, MADV_HUGEPAGE);
  static std::uintptr_t skew = 0;
  const auto at =
      (reinterpret_cast<std::uintptr_t>(p) + huge - 1) / huge * huge + (skew = (skew + 576) % 8192);
  return {reinterpret_cast<std::byte*>(at), t, s};
}

// Uniform in [-size, size): nothing denormal, nothing that overflows in a sum.
inline void randomise(const View& v, double size, std::uint64_t seed) {
  for (std::int64_t i = 0; i < v.count(); ++i) {
    const auto r = static_cast<std::uint32_t>(hash64(seed, static_cast<std::uint64_t>(i)));
    const auto x = static_cast<float>(size * (2.0 * unit_float(r) - 1.0));
    if (v.dtype == DType::bf16) {
      reinterpret_cast<bf16*>(v.data)[i] = bf16(x);
    } else {
      reinterpret_cast<float*>(v.data)[i] = x;
    }
  }
}

template <class T>
T* pointer(const View& v) {
  return reinterpret_cast<T*>(v.data);
}
template <class T>
const T* pointer(const ConstView& v) {
  return reinterpret_cast<const T*>(v.data);
}

}  // namespace trireme::bench
