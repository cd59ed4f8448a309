#pragma once
// Detects hardware faults in two ways. First, a step is computed twice and the digests of the
// results are compared. Second, digests show whether memory has changed between two updates, when
// it should be constant.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/digest.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/model/model.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Digests of everything that the parts on this rank's stage compute for each micro-batch: outputs
// of forward passes and input gradients of backward passes. The digests are in the order of
// computation, so the first difference between two computations locates the fault.
class ActivationDigests {
 public:
  // `order[i]` is the index that the program's i-th micro-batch has in the step.
  ActivationDigests(Backend&, const Model&, std::vector<int> order);

  // Adds the digest of a tensor that part `part` of the model computed for the program's
  // micro-batch `m`. Ignores an absent tensor.
  void add(Direction, int m, std::size_t part, const Tensor&);
  // Waits until the digests are computed and returns them: by micro-batch of the step, and within a
  // micro-batch the parts' forward passes before their backward passes. Entries of other ranks are
  // 0.
  std::vector<std::uint64_t> read(const Communicator&) const;

 private:
  std::size_t index(Direction, int m, std::size_t part) const;

  Backend& backend_;
  std::size_t parts_;
  std::vector<int> order_;
  Tensor digests_;
};

// The results of one computation of a step's forward and backward passes.
struct Computation {
  DigestTable gradients;         // all gradients that this rank uses in its update
  double loss = 0, squares = 0;  // over all ranks
  std::vector<std::uint64_t> activations;
};

// Returns true if the two results are equal on every rank. Collective.
bool have_same_results(const Communicator& world, const Computation&, const Computation&);
// Returns text that says where two different results first differ: unit, micro-batch, rank and
// host. Collective.
std::string first_difference(const Communicator& world, const Model&, const Computation&,
                             const Computation&);

// Returns text that names the arrays that differ between two tables on any rank. Ignores arrays
// that only one table has. Returns an empty string if no arrays differ. Collective.
std::string changed_arrays(const Communicator& world, const ModelSpec&, const DigestTable& before,
                           const DigestTable& now);

}  // namespace trireme
