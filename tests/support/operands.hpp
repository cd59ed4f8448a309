#pragma once
// The operands of one operation, in memory that shows which elements it reads and writes. Elements
// that belong to no operand lie around each of them and in the gaps of strided ones, and the
// contents before the operation are chosen: random numbers where it reads, a pattern elsewhere.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.hpp"

namespace trireme {

struct Operand {
  int place;  // its index in the operation's list
  ConstView view;
  Role role;
};

class Operands {
 public:
  // Numbers are rounded to what a backend that computes in `tested` would hold.
  Operands(Backend&, DType compute, DType tested);
  ~Operands();
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  Backend& backend;
  const DType compute;

  // Dense views of new memory, whose numbers are in [-amplitude, amplitude).
  View values(const Shape&, double amplitude = 1);
  View wide_values(const Shape&, double amplitude = 1);
  View of_type(DType, const Shape&, double amplitude = 1);      // on every backend
  View positive(const Shape&);                                  // wide, in [0.5, 1.5)
  View large(const Shape&);                                     // f32, in [50, 150)
  View given(DType, const Shape&, const std::vector<double>&);  // exactly these
  View ids(const std::vector<std::int32_t>&);
  View numbers(const std::vector<std::int64_t>&);
  View workspace(std::size_t bytes);  // absent for none

  // Says which elements are operands; called once, before what follows.
  void declare(std::vector<Operand>);
  // What `run` does to them against their roles, a line for each breach:
  //   read   an element is changed
  //   write  an element is left as it was, or depends on what was there
  //   add    nothing depends on what was there; so too an operand that another one reads
  // or to no operand: its elements are changed, or results depend on them or on scratch.
  std::vector<std::string> broken_promises(const std::function<void()>& run);
  // The elements that a `run` writes, by operand.
  struct Result {
    Operand operand;
    std::vector<double> values;
    std::vector<std::byte> bytes;
  };
  std::vector<Result> results(const std::function<void()>& run);

 private:
  struct Allocation {
    View all;  // the operand with what lies around it
    std::vector<std::byte> start;
    std::vector<std::uint8_t> uses;  // of each element: how operands use it
  };
  using Contents = std::vector<std::vector<std::byte>>;  // of each allocation

  View take(DType, const Shape&, const std::vector<double>&, MemoryKind = MemoryKind::transient);
  View random(DType, DType held, const Shape&, double amplitude);
  View around(double, DType, DType held, const Shape&);
  std::size_t allocation_of(const ConstView&) const;
  std::vector<std::size_t> elements_of(const ConstView&) const;
  Contents start(std::byte before, const Operand* with_other_numbers) const;
  Contents run_from(const Contents&, const std::function<void()>& run) const;
  std::vector<std::byte> bytes_of_operand(const Contents&, const Operand&) const;

  DType tested_;
  std::vector<Block> blocks_;
  std::vector<Allocation> allocations_;
  std::vector<Operand> operands_;
};

// Operands that differ from the reference, a line each: by more than 16 roundings, in the coarser
// of its own and the compute type, of the operand's largest element. That is enough for a handful
// of roundings, sums of some hundred terms, and steps between which numbers are rounded.
std::vector<std::string> differences(const std::vector<Operands::Result>& got,
                                     const std::vector<Operands::Result>& want, DType compute);

}  // namespace trireme
