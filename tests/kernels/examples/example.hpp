#pragma once
// An operation to try, on operands that are made for it. A folder of headers has some for every
// operation: small, of odd shapes, with each operand that may be absent once there and once not.
#include <functional>
#include <string>
#include <vector>

#include "kernels/operations.hpp"
#include "tests/support/operands.hpp"

namespace trireme {

template <class O>
struct Example {
  std::string name;
  std::function<O(Operands&)> make;
  bool on_host_alone = false;  // what no GPU does: counts of quanta
};
template <class O>
using Examples = std::vector<Example<O>>;

// Examples<O> examples(Of<O>) is there for every operation.
template <class O>
struct Of {};

// Counts of quanta, and where the largest of some terms is kept, which are smaller.
inline View counts(Operands& o, const Shape& s) {
  return o.of_type(DType::i64, s, 0x1p49);
}
inline View largest(Operands& o) {
  return o.large({1});
}

inline constexpr Accumulate both_modes[] = {Accumulate::overwrite, Accumulate::add};
inline std::string mode(Accumulate how) {
  return how == Accumulate::add ? ", add" : ", overwrite";
}

}  // namespace trireme
