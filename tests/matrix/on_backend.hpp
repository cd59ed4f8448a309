#pragma once
// Backends, and memory on them, for tests of matrix steps.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/tensor/tensor.hpp"
#include "tests/support/double_matrix.hpp"
#include "tests/support/elements.hpp"

namespace trireme {

// A backend, and the compute type on it.
struct MatrixCase {
  std::string backend;
  DType type;
};

inline const MatrixCase matrix_cases[] = {
    {"ref", DType::f64}, {"host", DType::f32}, {"host", DType::bf16}, {"fenced", DType::f32}};

inline std::string name_of_matrix_case(const testing::TestParamInfo<MatrixCase>& info) {
  return info.param.backend + "_" + std::string(name_of(info.param.type));
}

// An open backend with its workspace. Tests put matrices on it and get results back.
class MatrixMachine {
 public:
  explicit MatrixMachine(const std::string& name)
      : backend_(open_backend({.name = name})), workspace_(*backend_) {}

  Backend& backend() { return *backend_; }
  Tensor put(const DoubleMatrix& a, DType t) {
    auto memory = Tensor::empty(*backend_, {a.rows, a.columns}, t, MemoryKind::transient);
    backend_->upload(Queue::compute, memory.view(), encode(t, a.x));
    return memory;
  }
  DoubleMatrix get(const View& v) {
    std::vector<std::byte> bytes(v.span_bytes());
    backend_->download(Queue::compute, bytes, v);
    return {v.extent[0], v.extent[1], decode(v.dtype, bytes)};
  }

 private:
  std::unique_ptr<Backend> backend_;
  Workspace workspace_;
};

// Scratch memory of exactly the given size, filled with NaNs, between known numbers that nothing
// may overwrite.
class FencedScratch {
 public:
  FencedScratch(MatrixMachine& machine, DType t, std::int64_t size)
      : machine_(machine), size_(size) {
    DoubleMatrix all(1, margin + size + margin);
    all.x.assign(all.x.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t i = 0; i < margin; ++i) all(0, i) = all(0, margin + size + i) = known;
    memory_ = machine.put(all, t);
  }
  View view() const { return memory_.slice(margin, {size_}).view(); }
  void expect_whole() const {
    const auto all = machine_.get(memory_.view());
    for (std::int64_t i = 0; i < margin; ++i) {
      ASSERT_EQ(all(0, i), known) << "written " << margin - i << " elements before the scratch";
      ASSERT_EQ(all(0, margin + size_ + i), known) << "written " << i << " elements behind it";
    }
  }

 private:
  static constexpr std::int64_t margin = 96;
  static constexpr double known = 7;  // exact in every type
  MatrixMachine& machine_;
  std::int64_t size_;
  Tensor memory_;
};

// Rounds the elements to the type.
inline DoubleMatrix rounded(const DoubleMatrix& a, DType t) {
  return {a.rows, a.columns, decode(t, encode(t, a.x))};
}

class OnBackend : public testing::TestWithParam<MatrixCase> {
 protected:
  void SetUp() override {
    if (compute_type({.name = GetParam().backend}, type()) != type())
      GTEST_SKIP() << "this processor cannot multiply " << name_of(type());
  }
  DType type() const { return GetParam().type; }
  MatrixMachine machine{GetParam().backend};
};

}  // namespace trireme
