#pragma once
// Finding faults of hardware by doing things twice: a step's computation, whose results are
// compared by their digests, and reading what lies in memory from one update to the next.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/digest.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/model/model.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Digests of what the parts of this rank's stage make for each microbatch: outputs forward,
// gradients of inputs backward. In the order of cause and effect, so that of two computations the
// first that differ say where a fault came in.
class ActivationDigests {
 public:
  // `order`: of the program's microbatches the i-th is the order[i]-th of the step.
  ActivationDigests(Backend&, const Model&, std::vector<int> order);

  // What part `part` of the model makes for the program's microbatch `m`; absent: nothing.
  void add(Direction, int m, std::size_t part, const Tensor&);
  // By microbatch of the step, then parts forward, then backward; 0 where another rank has it.
  // Waits for what was added.
  std::vector<std::uint64_t> read(const Communicator&) const;

 private:
  std::size_t index(Direction, int m, std::size_t part) const;

  Backend& backend_;
  std::size_t parts_;
  std::vector<int> order_;
  Tensor digests_;
};

// What one computation of a step's forward and backward came to.
struct Computation {
  DigestTable gradients;         // all that this rank updates with
  double loss = 0, squares = 0;  // of all ranks
  std::vector<std::uint64_t> activations;
};

// Collective: is it the same on every rank?
bool have_same_results(const Communicator& world, const Computation&, const Computation&);
// Collective: where two with different results first differ: unit, microbatch, rank, host.
std::string first_difference(const Communicator& world, const Model&, const Computation&,
                             const Computation&);

// Collective: which of a rank's arrays differ between two tables that both have them; empty: none.
std::string changed_arrays(const Communicator& world, const ModelSpec&, const DigestTable& before,
                           const DigestTable& now);

}  // namespace trireme
