#pragma once
// One round of rows on their way to the ranks of their experts, and back: two all-to-alls of uneven
// parts, each the other's plain transpose.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/expert_rounds.hpp"

namespace trireme::ops {

// Rows of x_TC, by ids.
Tensor take_rows(const Run&, const ConstView& x_TC, const ConstView& ids_R, Kind);

// The rounds of what this rank's tokens chose, count_LE (lib/ops/router.hpp), and the others':
// these counts travel first. On a backend without values, as if experts were chosen evenly.
struct ExpertRounds {
  ExpertCounts counts;
  std::vector<ExpertRound> all;
  std::int64_t most = 0;  // rows that this rank takes in a round
};
// What several rounds are to leave of their memory: nothing, or, for a later half of backward, all.
enum class Rounds : std::uint8_t { one_by_one, kept };
// The ranks' counts, [ranks, leaves, E].
Tensor gather_counts(const Run&, const Tensor& count_LE);
// `rows`: of this rank; E experts in all.
ExpertRounds rounds_of(const Run&, const Tensor& counts, std::int64_t rows, std::int64_t experts,
                       Rounds = Rounds::one_by_one);

class ExpertTravel {
 public:
  ExpertTravel(const Run&, const ExpertRound&, std::int64_t most);

  // take_rows, of what travels in an earlier round, too.
  Tensor rows_again(const ConstView& x_TC, const ConstView& ids_R) const;
  // Of rows_RC, sorted by expert on each rank, those of this rank's experts, sorted by them: the
  // first rows().  Memory for the most that a round takes.
  Tensor to_experts(const Tensor& rows_RC, Kind) const;
  // The way back, into rows_RC of the ranks that they came from.
  void from_experts(const Tensor& rows_NC, const Tensor& rows_RC) const;

  std::int64_t rows() const { return round_.rows(); }
  const Tensor& offset_E1() const { return offset_; }
  // Such that a leaf of Place::exact_chunk tokens has numbers of its own.
  const Tensor& token_N() const { return token_; }

 private:
  void exchange(const Tensor& to, const std::vector<RowRange>& take, const Tensor& from,
                const std::vector<RowRange>& give) const;

  const Run& run_;
  const ExpertRound& round_;
  std::int64_t most_;
  std::vector<RowRange> received_;
  Tensor place_, back_, offset_, token_;
};

}  // namespace trireme::ops
