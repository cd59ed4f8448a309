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
};
template <class O>
using Examples = std::vector<Example<O>>;

// Examples<O> examples(Of<O>) is there for every operation.
template <class O>
struct Of {};

inline constexpr Accumulate both_ways[] = {Accumulate::overwrite, Accumulate::add};
inline std::string way(Accumulate how) {
  return how == Accumulate::add ? ", add" : ", overwrite";
}

}  // namespace trireme
