#include "lib/train/preference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/error.hpp"

namespace trireme {

PreferenceSums& PreferenceSums::operator+=(const PreferenceSums& x) {
  auto other = x;
  const auto from = other.fields(), to = fields();
  for (std::size_t i = 0; i < to.size(); ++i) *to[i] += *from[i];
  return *this;
}

// Returns log(1 + exp(-x)), which equals -log sigmoid(x).
static double softplus_of_minus(double x) {
  return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x));
}

// Returns factor * sigmoid(-x). With the factor 1, it is minus the derivative of
// softplus_of_minus().
static double sigmoid_of_minus(double x, double factor) {
  const double e = std::exp(-std::fabs(x));
  return factor * (x > 0 ? e : 1.0) / (1 + e);
}

static PairResult result_of_loss(const Dpo& o, const ScoredDocument& chosen,
                                 const ScoredDocument& rejected) {
  PairResult r{};
  r.reward_chosen = o.beta * (chosen.reference - chosen.policy);
  r.reward_rejected = o.beta * (rejected.reference - rejected.policy);
  r.loss = softplus_of_minus(r.margin());
  r.weight_chosen = sigmoid_of_minus(r.margin(), o.beta);
  r.weight_rejected = -r.weight_chosen;
  return r;
}

static PairResult result_of_loss(const Simpo& o, const ScoredDocument& chosen,
                                 const ScoredDocument& rejected) {
  PairResult r{};
  r.reward_chosen = -o.beta * chosen.policy / chosen.targets;
  r.reward_rejected = -o.beta * rejected.policy / rejected.targets;
  const double above = r.margin() - o.gamma, slope = sigmoid_of_minus(above, o.beta);
  r.loss = softplus_of_minus(above);
  r.weight_chosen = slope / chosen.targets;
  r.weight_rejected = -slope / rejected.targets;
  return r;
}

// The log odds log(p / (1 - p)), and their derivative with respect to log p, which is 1 / (1 - p).
namespace {
struct LogOdds {
  double value, slope;
};
}  // namespace

static LogOdds log_odds_of(const ScoredDocument& d) {
  // Losses are computed in f32, in which probabilities near 1 cannot be told from 1. Without a
  // bound, their weight would be almost infinite.
  constexpr double least = std::numeric_limits<float>::epsilon();
  const double log_p = -d.policy / d.targets;
  const double rest = std::max(-std::expm1(log_p), least);  // 1 - p
  return {log_p - std::log(rest), 1 / rest};
}

static PairResult result_of_loss(const Orpo& o, const ScoredDocument& chosen,
                                 const ScoredDocument& rejected) {
  const auto of_chosen = log_odds_of(chosen), of_rejected = log_odds_of(rejected);
  PairResult r{};
  r.reward_chosen = of_chosen.value;
  r.reward_rejected = of_rejected.value;
  const double slope = sigmoid_of_minus(r.margin(), o.lambda);
  r.loss = chosen.policy / chosen.targets + o.lambda * softplus_of_minus(r.margin());
  r.weight_chosen = (1 + slope * of_chosen.slope) / chosen.targets;
  r.weight_rejected = -slope * of_rejected.slope / rejected.targets;
  return r;
}

PairResult result_of(const PairLoss& loss, const ScoredDocument& chosen,
                     const ScoredDocument& rejected) {
  return std::visit([&](const auto& one) { return result_of_loss(one, chosen, rejected); }, loss);
}

LabeledResult result_of(const Kto& o, const ScoredDocument& answer, bool desirable, double z) {
  const double reward = o.beta * (answer.reference - answer.policy);
  const double weight = desirable ? o.desirable_weight : o.undesirable_weight;
  const double above = desirable ? reward - z : z - reward;
  const double loss = sigmoid_of_minus(above, weight);
  const double slope = loss * sigmoid_of_minus(-above, o.beta);  // of the loss, by -above
  return {loss, reward, desirable ? slope : -slope};
}

bool uses_targets(const PreferenceLoss& loss) {
  const auto* const pairs = std::get_if<PairLoss>(&loss);
  return pairs && std::visit([](const auto& one) { return one.per_target; }, *pairs);
}

MismatchSum mismatch_of(const PreferenceLoss& loss, std::span<const ScoredPair> all) {
  MismatchSum sum;
  if (!std::holds_alternative<Kto>(loss)) return sum;
  for (const auto& p : all) sum.log_ratio += p.second.reference - p.second.policy;
  sum.answers = static_cast<double>(all.size());
  return sum;
}

double reference_point(const PreferenceLoss& loss, const MismatchSum& sum) {
  const auto* const kto = std::get_if<Kto>(&loss);
  // In this order, max() returns a mean that is not a number.
  return kto ? kto->beta * std::max(sum.log_ratio / sum.answers, 0.0) : 0;
}

static WeightedPair weighted_with(const PairLoss& loss, const ScoredPair& p, double /*z*/) {
  const auto r = result_of(loss, p.first, p.second);
  return {{.loss = r.loss,
           .preferred = r.margin() > 0 ? 1.0 : 0.0,
           .chosen = r.reward_chosen,
           .rejected = r.reward_rejected,
           .of_chosen = 1,
           .of_rejected = 1,
           .pairs = 1},
          r.weight_chosen,
          r.weight_rejected};
}

static WeightedPair weighted_with(const Kto& loss, const ScoredPair& p, double z) {
  const auto r = result_of(loss, p.first, p.desirable, z);
  PreferenceSums one{.loss = r.loss, .pairs = 1};
  one.preferred = (p.desirable ? r.reward > z : r.reward < z) ? 1 : 0;
  (p.desirable ? one.chosen : one.rejected) = r.reward;
  (p.desirable ? one.of_chosen : one.of_rejected) = 1;
  return {one, r.weight, 0};
}

WeightedPair weighted(const PreferenceLoss& loss, const ScoredPair& p, double z) {
  return std::visit([&](const auto& one) { return weighted_with(one, p, z); }, loss);
}

// The documents of a sample: the document's index by position, the position at which padding begins
// (`end`), and the number of documents.
namespace {
struct SampleDocuments {
  std::vector<std::int64_t> of_position;
  std::int64_t end = 0, count = 0;
};
}  // namespace

static SampleDocuments documents_of(const Batch& share, std::size_t sample) {
  expect(!share.start_BT.empty(), "samples say where documents begin");
  const auto all = share.start_BT.size() / share.sample_B.size();
  const auto* const start = share.start_BT.data() + sample * all;
  SampleDocuments d;
  d.end = share.tokens_B.empty() ? static_cast<std::int64_t>(all) : share.tokens_B[sample];
  for (std::int64_t t = 0; t < d.end; ++t) {
    d.count += start[t] == t;
    d.of_position.push_back(d.count - 1);
  }
  expect(d.count % 2 == 0, "a sample has whole pairs");
  return d;
}

std::int64_t documents_in(const Batch& share) {
  std::int64_t count = 0;
  for (std::size_t b = 0; b < share.sample_B.size(); ++b) count += documents_of(share, b).count;
  return count;
}

std::vector<LossRows> rows_of_documents(const Batch& share, const ops::SequenceLayout& layout,
                                        int rank) {
  std::vector<LossRows> all;
  std::int64_t row = 0, before = 0;  // before: documents in earlier samples
  const auto own = layout.every_position(rank);
  for (std::size_t b = 0; b < share.sample_B.size(); ++b) {
    const auto documents = documents_of(share, b);
    for (const auto t : own) {
      const auto sum =
          t < documents.end ? before + documents.of_position[static_cast<std::size_t>(t)] : 0;
      if (all.empty() || all.back().sum != sum) all.push_back({{row, row}, sum, 1});
      all.back().rows.end = ++row;
    }
    before += documents.count;
  }
  return all;
}

std::vector<double> targets_of_documents(const Batch& share, const ops::SequenceLayout& layout,
                                         int rank) {
  std::vector<double> targets(static_cast<std::size_t>(documents_in(share)), 0);
  if (targets.empty()) return targets;  // padding only
  for (const auto& r : rows_of_documents(share, layout, rank)) {
    const auto* const first = share.targets_BT.data();
    targets[static_cast<std::size_t>(r.sum)] +=
        static_cast<double>(std::count_if(first + r.rows.begin, first + r.rows.end,
                                          [](std::int32_t target) { return target != no_target; }));
  }
  return targets;
}

}  // namespace trireme
