#pragma once
// Losses of pairs of documents, chosen and rejected. For a document, let pi be the log-probability
// of its targets, ref the log-probability of these targets under a fixed model, and n their number.
// Each loss gives a document a reward. The margin is reward_chosen - reward_rejected.
//   Dpo   (Rafailov et al. 2023)  reward = beta (pi - ref)
//                                 loss = -log sigmoid(margin)
//   Simpo (Meng et al. 2024)      reward = beta pi / n
//                                 loss = -log sigmoid(margin - gamma)
//   Orpo  (Hong et al. 2024)      reward = log(p / (1 - p)) with p = exp(pi / n)
//                                 loss = -pi_chosen / n_chosen - lambda log sigmoid(margin)
//                                 1 - p is at least 2^-23, the resolution of f32.
// The gradient of a loss equals the gradient of w_chosen (-pi_chosen) + w_rejected (-pi_rejected)
// with constant weights w, which are the derivatives of the loss with respect to -pi. This is a sum
// of token losses, each multiplied by the weight of its document. All functions are pure.
#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/data/dataset.hpp"
#include "lib/ops/sequence_layout.hpp"

namespace trireme {

struct Dpo {
  double beta = 0.1;
  static constexpr bool per_target = false;  // whether n is used
  bool operator==(const Dpo&) const = default;
};
struct Simpo {
  double beta = 2, gamma = 1;
  static constexpr bool per_target = true;
  bool operator==(const Simpo&) const = default;
};
struct Orpo {
  double lambda = 0.1;
  static constexpr bool per_target = true;
  bool operator==(const Orpo&) const = default;
};
using PairLoss = std::variant<Dpo, Simpo, Orpo>;

// A document of a pair: the summed losses of its targets under the trained model and under the
// fixed model, -pi and -ref, and the number of targets, which is at least 1. A loss ignores numbers
// that it does not use.
struct ScoredDocument {
  double policy, reference = 0, targets = 1;
};
// The loss of a pair, and the reward and the weight of each document.
struct PairResult {
  double loss, reward_chosen, reward_rejected, weight_chosen, weight_rejected;

  double margin() const { return reward_chosen - reward_rejected; }
};
// Returns true if the loss uses the number of targets.
bool uses_targets(const PairLoss&);
PairResult result_of(const PairLoss&, const ScoredDocument& chosen, const ScoredDocument& rejected);

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
// Returns the sums for a single pair.
PreferenceSums sums_of(const PairResult&);

// Returns the number of documents in samples of pairs. Padding does not count.
std::int64_t documents_in(const Batch& share);

// Returns the rows of a rank, grouped by document. The losses of a document's rows are added to the
// sum with the document's number. The losses of padding are added to sum 0.
std::vector<LossRows> rows_of_documents(const Batch& share, const ops::SequenceLayout&, int rank);

// Returns the number of targets of each document that are in the rows of a rank.
std::vector<double> targets_of_documents(const Batch& share, const ops::SequenceLayout&, int rank);

}  // namespace trireme
