#include "lib/shard/matrix_plan.hpp"

#include <algorithm>
#include <map>

namespace trireme {

const OwnedMatrix* MatrixRound::of(int owner) const {
  const auto found = std::ranges::find(matrices, owner, &OwnedMatrix::owner);
  return found == matrices.end() ? nullptr : &*found;
}

namespace {

// Elements of a range that each rank of a shard group holds, for ranks that hold any.
std::map<int, std::int64_t> held_by_ranks(Range elements, std::int64_t of_segment, int ranks) {
  std::map<int, std::int64_t> held;
  if (elements.count() == 0) return held;
  const auto shard = of_segment / ranks;
  for (auto rank = elements.begin / shard; rank * shard < elements.end; ++rank)
    held[static_cast<int>(rank)] =
        intersection(elements, shard_range(of_segment, rank, ranks)).count();
  return held;
}

// Costs of the matrices that each rank owns so far.
class Loads {
 public:
  explicit Loads(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) ranks_of_[0].push_back(rank);
  }

  // Returns the owner of the next matrix and adds the cost to its load.
  int take(double cost, const std::map<int, std::int64_t>& held) {
    auto least = ranks_of_.begin();
    auto& ranks = least->second;
    const auto share = [&](int rank) {
      const auto found = held.find(rank);
      return found == held.end() ? 0 : found->second;
    };
    const auto best = std::ranges::max_element(ranks, {}, share);
    const int owner = *best;
    ranks.erase(best);
    const double load = least->first + cost;
    if (ranks.empty()) ranks_of_.erase(least);
    auto& others = ranks_of_[load];
    others.insert(std::ranges::upper_bound(others, owner), owner);
    return owner;
  }

 private:
  std::map<double, std::vector<int>> ranks_of_;  // by load; ranks in ascending order
};

}  // namespace

MatrixPlan plan_matrices(const ModelSpec& spec, const Layout& layout,
                         std::span<const std::size_t> segments, HeadMatrices heads, int ranks,
                         const std::function<double(const Matrix&)>& cost) {
  std::vector<OwnedMatrix> all;
  for (const auto segment : segments)
    for (const auto& slot : layout.segments[segment].slots) {
      if (slot.begin < layout.segments[segment].matrices_begin) continue;
      for (const auto& matrix : matrices_of(spec, slot.param, heads)) {
        const auto begin = slot.begin + matrix.first;
        all.push_back({matrix, segment, {begin, begin + matrix.count()}, cost(matrix), 0});
      }
    }
  std::ranges::stable_sort(all, std::greater{}, &OwnedMatrix::cost);
  MatrixPlan plan;
  Loads loads(ranks);
  std::vector<std::size_t> owned(static_cast<std::size_t>(ranks), 0);
  std::vector<std::map<int, std::int64_t>> held_in_round;
  for (auto& m : all) {
    const auto held = held_by_ranks(m.elements, layout.segments[m.segment].elements, ranks);
    m.owner = loads.take(m.cost, held);
    const auto round = owned[static_cast<std::size_t>(m.owner)]++;
    if (round == plan.rounds.size()) {
      plan.rounds.emplace_back();
      held_in_round.emplace_back();
    }
    plan.rounds[round].matrices.push_back(m);
    plan.sizes.matrix = std::max(plan.sizes.matrix, m.matrix.count());
    for (const auto& [rank, count] : held) {
      auto& in_round = held_in_round[round][rank];
      in_round += padded(count, Layout::alignment);
      plan.sizes.held = std::max(plan.sizes.held, in_round);
      plan.sizes.sent = std::max(plan.sizes.sent, count);
    }
  }
  return plan;
}

}  // namespace trireme
