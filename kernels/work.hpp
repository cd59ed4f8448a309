#pragma once
// What an operation has to do whoever does it: the least that any machine moves and computes. And
// how long it took.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "kernels/backend.hpp"

namespace trireme {

struct Work {
  double bytes = 0;  // of memory, each operand read or written once
  double flops = 0;  // of products

  Work& operator+=(const Work& w) {
    bytes += w.bytes;
    flops += w.flops;
    return *this;
  }
};

// All calls of one operation together.
struct OperationTime {
  std::string name;  // "matmul", "layer_norm_grad"
  std::int64_t calls = 0;
  double milliseconds = 0;  // by the device's clock
  Work work;
};

inline double bytes_seen(const ConstView& v) {
  return v ? static_cast<double>(v.count()) * static_cast<double>(bytes_of(v.dtype)) : 0;
}

inline Work moving(std::initializer_list<ConstView> operands) {
  Work w;
  for (const auto& v : operands) w.bytes += bytes_seen(v);
  return w;
}
// A result that is added to is read too.
inline Work moving(std::initializer_list<ConstView> operands, Accumulate how,
                   std::initializer_list<ConstView> results) {
  auto w = moving(operands);
  w.bytes += (how == Accumulate::add ? 2 : 1) * moving(results).bytes;
  return w;
}

inline double product_flops(const ConstView& c_MN, const ConstView& a_MK) {
  return 2.0 * static_cast<double>(c_MN.count()) * static_cast<double>(a_MK.extent[1]);
}

// Two products of T x T x D a head, half of which causality leaves out. Backward has five, as the
// probabilities are computed again.
inline double attention_flops(const AttentionShape& s, Direction d) {
  const double forward = 2.0 * static_cast<double>(s.batch * s.heads * s.head_dim) *
                         static_cast<double>(s.tokens) * static_cast<double>(s.tokens);
  return d == Direction::forward ? forward : 2.5 * forward;
}

// Rows of a table by ids, each once: `rows` stands for as many of them as there are at most.
inline double bytes_of_rows(const ConstView& table_VC, std::int64_t rows) {
  return static_cast<double>(std::min(rows, table_VC.extent[0]) * table_VC.extent[1]) *
         static_cast<double>(bytes_of(table_VC.dtype));
}

}  // namespace trireme
