#pragma once
// Matrices of every layout for tests of host::run(Matmul).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/rng.hpp"
#include "lib/base/view.hpp"

namespace trireme {

enum class Major { rows, columns };

// A matrix of pseudo-random values in [-1, 1), its leading dimension `padding` over the shortest.
class PaddedMatrix {
 public:
  PaddedMatrix(std::int64_t rows, std::int64_t cols, DType t, Major major, std::int64_t padding,
               std::uint64_t seed) {
    const bool by_rows = major == Major::rows;
    const auto ld = (by_rows ? cols : rows) + padding;
    bytes_.resize(static_cast<std::size_t>(ld * (by_rows ? rows : cols)) * bytes_of(t));
    view_ = View(bytes_.data(), t, Shape{rows, cols});
    if (by_rows) {
      view_.stride[0] = ld;
    } else {
      view_.stride[0] = 1;
      view_.stride[1] = ld;
    }
    const auto count = static_cast<std::int64_t>(bytes_.size() / bytes_of(t));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto r = static_cast<std::uint32_t>(hash64(seed, static_cast<std::uint64_t>(i)));
      store(i, 2.0 * unit_float(r) - 1.0);
    }
  }

  const View& view() const { return view_; }
  std::vector<std::byte>& bytes() { return bytes_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  double at(std::int64_t i, std::int64_t j) const {
    return load(i * view_.stride[0] + j * view_.stride[1]);
  }
  double load(std::int64_t i) const {
    if (view_.dtype == DType::bf16) {
      return static_cast<float>(reinterpret_cast<const bf16*>(bytes_.data())[i]);
    }
    return reinterpret_cast<const float*>(bytes_.data())[i];
  }
  void store(std::int64_t i, double x) {
    if (view_.dtype == DType::bf16) {
      reinterpret_cast<bf16*>(bytes_.data())[i] = bf16(static_cast<float>(x));
    } else {
      reinterpret_cast<float*>(bytes_.data())[i] = static_cast<float>(x);
    }
  }

 private:
  std::vector<std::byte> bytes_;
  View view_;
};

inline View scratch_of(std::size_t bytes = 16U << 20) {
  static auto* memory = new std::vector<float>;
  memory->resize(std::max(memory->size(), bytes / sizeof(float) + 16));
  const auto at = (reinterpret_cast<std::uintptr_t>(memory->data()) + 63) / 64 * 64;
  return {reinterpret_cast<std::byte*>(at), DType::f32,
          Shape{static_cast<std::int64_t>(bytes / sizeof(float))}};
}

inline constexpr std::pair<DType, DType> types[] = {
    {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};

}  // namespace trireme
