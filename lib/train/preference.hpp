#pragma once
// Direct preference optimization (Rafailov et al. 2023). For a pair of documents, chosen and
// rejected, let pi be the log-probability of a document's targets and ref that of a fixed model:
//   reward = beta (pi - ref)   margin = reward_chosen - reward_rejected
//   loss = -log sigmoid(margin)
// The gradient of the loss equals the gradient of w_chosen (-pi_chosen) + w_rejected (-pi_rejected)
// with the constants
//   w_chosen = beta sigmoid(-margin) = -w_rejected.
// This is a sum of token losses, each multiplied by the weight of its document. All functions are
// pure.
#include <array>
#include <cstdint>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/data/dataset.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme {

// Sums over pairs of documents.
struct PreferenceSums {
  double loss = 0, margin = 0;
  double preferred = 0;             // number of pairs with a margin above 0
  double chosen = 0, rejected = 0;  // rewards
  double pairs = 0;

  PreferenceSums& operator+=(const PreferenceSums&);
  PreferenceSums mean() const;  // mean over the pairs; `pairs` keeps their number
  std::array<double*, 6> fields() {
    return {&loss, &margin, &preferred, &chosen, &rejected, &pairs};
  }
};

// The summed token losses of a document under the trained model and under the fixed model: -pi and
// -ref.
struct DocumentLosses {
  double policy, reference;
};
// Returns the sums for a single pair.
PreferenceSums preference_of(const DocumentLosses& chosen, const DocumentLosses& rejected,
                             double beta);
// Returns the weight w_chosen for a pair with this margin.
double weight_of(double margin, double beta);

// Returns the number of documents in samples of pairs. Padding does not count.
std::int64_t documents_in(const Batch& share);

// Returns the rows of a rank, grouped by document. The losses of a document's rows are added to the
// sum with the document's number. The losses of padding are added to sum 0.
std::vector<LossRows> rows_of_documents(const Batch& share, const ops::SequenceLayout&, int rank);

}  // namespace trireme
