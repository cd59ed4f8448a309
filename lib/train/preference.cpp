#include "lib/train/preference.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"

namespace trireme {

PreferenceSums& PreferenceSums::operator+=(const PreferenceSums& x) {
  auto other = x;
  const auto from = other.fields(), to = fields();
  for (std::size_t i = 0; i < to.size(); ++i) *to[i] += *from[i];
  return *this;
}

PreferenceSums PreferenceSums::mean() const {
  PreferenceSums all = *this;
  for (auto* field : all.fields())
    if (field != &all.pairs) *field /= pairs;
  return all;
}

// Returns log(1 + exp(-x)), which equals -log sigmoid(x).
static double softplus_of_minus(double x) {
  return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x));
}

PreferenceSums preference_of(const DocumentLosses& chosen, const DocumentLosses& rejected,
                             double beta) {
  PreferenceSums one;
  one.chosen = beta * (chosen.reference - chosen.policy);
  one.rejected = beta * (rejected.reference - rejected.policy);
  one.margin = one.chosen - one.rejected;
  one.preferred = one.margin > 0 ? 1 : 0;
  one.loss = softplus_of_minus(one.margin);
  one.pairs = 1;
  return one;
}

double weight_of(double margin, double beta) {
  const double e = std::exp(-std::fabs(margin));
  return beta * (margin > 0 ? e : 1.0) / (1 + e);
}

// The documents of a sample: the document's index by position, the position at which padding begins
// (`end`), and the number of documents.
namespace {
struct Documents {
  std::vector<std::int64_t> of_position;
  std::int64_t end = 0, count = 0;
};
}  // namespace

static Documents documents_of(const Batch& share, std::size_t sample) {
  expect(!share.start_BT.empty(), "samples of pairs say where documents begin");
  const auto all = share.start_BT.size() / share.sample_B.size();
  const auto* const start = share.start_BT.data() + sample * all;
  Documents d;
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

}  // namespace trireme
