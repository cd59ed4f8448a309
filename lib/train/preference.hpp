#pragma once
// Losses of pairs of documents, chosen and rejected, and of labeled answers, desirable or not. For
// a document, let pi be the log-probability of its targets, ref the log-probability of these
// targets under a fixed model, and n their number. Each loss gives a document a reward. The margin
// is reward_chosen - reward_rejected.
//   Dpo   (Rafailov et al. 2023)  reward = beta (pi - ref)
//                                 loss = -log sigmoid(margin)
//   Simpo (Meng et al. 2024)      reward = beta pi / n
//                                 loss = -log sigmoid(margin - gamma)
//   Orpo  (Hong et al. 2024)      reward = log(p / (1 - p)) with p = exp(pi / n)
//                                 loss = -pi_chosen / n_chosen - lambda log sigmoid(margin)
//                                 1 - p is at least 2^-23, the resolution of f32.
//   Kto   (Ethayarajh et al. 2024)  reward = beta (pi - ref)
//                                 z = beta max(0, mean of pi - ref over mismatched answers)
//                                 loss = weight (1 - sigmoid(reward - z)) of desirable answers,
//                                        weight (1 - sigmoid(z - reward)) of the others
//                                 A mismatched answer is the answer to another prompt.
// The gradient of a loss equals the gradient of the sum of w (-pi) over documents, with constant
// weights w, which are the derivatives of the loss with respect to -pi. This is a sum of token
// losses, each multiplied by the weight of its document. z is a constant, too. All functions are
// pure.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
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
struct Kto {
  double beta = 0.1, desirable_weight = 1, undesirable_weight = 1;
  bool operator==(const Kto&) const = default;
};
using PreferenceLoss = std::variant<PairLoss, Kto>;

// A document: the summed losses of its targets under the trained model and under the
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
PairResult result_of(const PairLoss&, const ScoredDocument& chosen, const ScoredDocument& rejected);

// The loss of a labeled answer, and its reward and weight.
struct LabeledResult {
  double loss, reward, weight;
};
LabeledResult result_of(const Kto&, const ScoredDocument& answer, bool desirable, double z);

// Two documents that belong together (Documents): the chosen and the rejected answer, or a labeled
// answer, its mismatched answer and its label.
struct ScoredPair {
  ScoredDocument first, second;
  bool desirable = true;
};

// Returns true if the loss uses the number of targets.
bool uses_targets(const PreferenceLoss&);

// Sums over pairs of documents or over labeled answers.
struct PreferenceSums {
  double loss = 0;
  // Number of pairs with a margin above 0, or of labeled answers whose reward is above z if they
  // are desirable, and below z otherwise.
  double preferred = 0;
  // Rewards of the chosen and the rejected answers, or of the desirable and the other answers, and
  // their numbers.
  double chosen = 0, rejected = 0, of_chosen = 0, of_rejected = 0;
  double pairs = 0;           // or labeled answers
  std::optional<double> z{};  // of labeled answers; not a sum

  PreferenceSums& operator+=(const PreferenceSums&);
  // Return means. A mean of nothing is NaN, without a sign that depends on the machine.
  static double mean(double sum, double n) {
    return n > 0 ? sum / n : std::numeric_limits<double>::quiet_NaN();
  }
  double mean_loss() const { return mean(loss, pairs); }
  double accuracy() const { return mean(preferred, pairs); }
  double reward_chosen() const { return mean(chosen, of_chosen); }
  double reward_rejected() const { return mean(rejected, of_rejected); }
  double margin() const { return reward_chosen() - reward_rejected(); }
  std::array<double*, 7> fields() {
    return {&loss, &preferred, &chosen, &rejected, &of_chosen, &of_rejected, &pairs};
  }
};

// The sum of pi - ref over mismatched answers, and their number. Both are 0 for a loss of pairs.
struct MismatchSum {
  double log_ratio = 0, answers = 0;
};
MismatchSum mismatch_of(const PreferenceLoss&, std::span<const ScoredPair>);
// Returns z for the sum over all answers of a step. Returns 0 for a loss of pairs.
double reference_point(const PreferenceLoss&, const MismatchSum&);

// The results for two documents: their contribution to the sums, and their weights. `z` is the
// reference_point() of the step.
struct WeightedPair {
  PreferenceSums sums;
  double first, second;
};
WeightedPair weighted(const PreferenceLoss&, const ScoredPair&, double z);

// Returns the number of documents in samples of two documents that belong together. Padding does
// not count.
std::int64_t documents_in(const Batch& share);

// Returns the rows of a rank, grouped by document. The losses of a document's rows are added to the
// sum with the document's number. The losses of padding are added to sum 0.
std::vector<LossRows> rows_of_documents(const Batch& share, const ops::SequenceLayout&, int rank);

// Returns the number of targets of each document that are in the rows of a rank.
std::vector<double> targets_of_documents(const Batch& share, const ops::SequenceLayout&, int rank);

}  // namespace trireme
