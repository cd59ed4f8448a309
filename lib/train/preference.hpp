#pragma once
// Direct preference optimization (Rafailov et al. 2023). Of a pair of documents, chosen and
// rejected, with pi the log-probability of a document's targets and ref that of a fixed model:
//   reward = beta (pi - ref)   margin = reward_chosen - reward_rejected
//   loss = -log sigmoid(margin)
// Its gradient is that of w_chosen (-pi_chosen) + w_rejected (-pi_rejected) with the constants
//   w_chosen = beta sigmoid(-margin) = -w_rejected,
// which is a sum of losses of tokens, each times the weight of its document. Pure.
#include <array>
#include <cstdint>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/data/dataset.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme {

// Sums over pairs.
struct PreferenceSums {
  double loss = 0, margin = 0;
  double preferred = 0;             // pairs of a margin above 0
  double chosen = 0, rejected = 0;  // rewards
  double pairs = 0;

  PreferenceSums& operator+=(const PreferenceSums&);
  PreferenceSums mean() const;  // over the pairs, whose number it keeps
  std::array<double*, 6> fields() {
    return {&loss, &margin, &preferred, &chosen, &rejected, &pairs};
  }
};

// The sums of a document's losses, -pi and -ref.
struct DocumentLosses {
  double policy, reference;
};
PreferenceSums preference_of(const DocumentLosses& chosen, const DocumentLosses& rejected,
                             double beta);
// w_chosen of a pair, by its margin.
double weight_of(double margin, double beta);

// How many documents a share of samples of pairs has, padding left out.
std::int64_t documents_in(const Batch& share);

// A rank's rows: those of a document are added to the sum of its number, padding to the first.
std::vector<LossRows> rows_of_documents(const Batch& share, const ops::SequenceLayout&, int rank);

}  // namespace trireme
