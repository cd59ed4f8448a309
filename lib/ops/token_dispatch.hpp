#pragma once
// One round of rows on their way to the ranks of their experts, and back: two all-to-alls of uneven
// parts, each the other's plain transpose, in chunks, of which one is computed while others travel.
#include <array>
#include <functional>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/comm/pending.hpp"
#include "lib/ops/expert_rounds.hpp"

namespace trireme {

// The ranks that hold all experts between them.
struct ExpertGroup {
  const Communicator& ranks;
  std::int64_t rows_of_round = 0;  // that a rank takes at a time; 0: 1.25 times an even load
};

namespace ops {

// The rounds of what this rank's tokens chose, count_LE (lib/ops/router.hpp), and the others':
// these counts travel first. On a backend without values, as if experts were chosen evenly.
struct RoundPlan {
  ExpertCounts counts;
  std::vector<ExpertRound> all;
  std::int64_t most = 0;  // rows that this rank takes in a round
};
// What several rounds are to leave of their memory: nothing, or, for a later half of backward, all.
enum class RoundMemory : std::uint8_t { one_by_one, kept };
// The ranks' counts, [ranks, leaves, E].
Tensor gather_counts(const Run&, const Tensor& count_LE);
// `rows`: of this rank; E experts in all.
RoundPlan rounds_of(const Run&, const Tensor& counts, std::int64_t rows, std::int64_t experts,
                    RoundMemory = RoundMemory::one_by_one);

class TokenDispatch {
 public:
  // Some of a round's rows, on the rank of their experts.
  struct Chunk {
    std::int64_t first, count;  // among the round's, which are sorted by expert
    // Of the experts that have some: where their rows begin among these, and the end.
    std::int64_t first_expert;
    const Tensor& offset_E1;
  };
  // Rows that go to their experts: rows_RC of all of this rank's, sorted by expert. Where they
  // arrive: the first rows() of into_NC, or, where that is absent, memory for one chunk.
  struct There {
    Tensor rows_RC, into_NC;
  };
  // Rows that a chunk makes, from its first on, and where they go back to (absent: nowhere).
  struct Back {
    Tensor rows_NC, into_RC;
  };
  using Made = std::array<Back, 2>;
  // Rows on their way back. Call wait() before they are read.
  class Returning {
   public:
    void wait();

   private:
    friend class TokenDispatch;
    std::vector<Pending> pending_;
  };

  // `most`: rows that this rank takes in a round.
  TokenDispatch(const Run&, const ExpertRound&, std::int64_t most);

  // take_rows, of what travels in an earlier round, too.
  Tensor rows_again(const ConstView& x_TC, const ConstView& ids_R) const;
  // Chunk after chunk: `compute` gets what arrived of each of `there`, rows from the chunk's first
  // on (absent where it has none and memory for the round was given). Meanwhile the next chunk is
  // on its way there, and what the last one made on its way back.
  [[nodiscard]] Returning through(
      const std::vector<There>& there,
      const std::function<Made(const Chunk&, std::vector<Tensor> arrived)>& compute) const;

  std::int64_t rows() const { return round_.rows(); }
  std::int64_t most_of_chunk() const { return rows_of_chunk(most_, std::ssize(round_.chunks)); }
  const Tensor& offset_E1() const { return offset_; }
  // Such that a leaf of Place::exact_chunk tokens has numbers of its own.
  const Tensor& token_N() const { return token_; }

 private:
  struct Moving {
    Tensor rows;
    Pending pending;
  };
  Pending exchange(const Tensor& to, const std::vector<RowRange>& take, const Tensor& from,
                   const std::vector<RowRange>& give) const;
  std::vector<Moving> depart(std::size_t chunk, const std::vector<There>&) const;
  Tensor arrive(std::size_t chunk, Moving, const Tensor& into_NC) const;
  Pending send_back(std::size_t chunk, const Back&) const;

  const Run& run_;
  const ExpertRound& round_;
  std::int64_t most_;
  std::vector<std::int64_t> first_;              // by chunk, and the end
  std::vector<std::vector<RowRange>> received_;  // by chunk and rank
  Tensor place_, back_, token_, offset_;
  std::vector<std::int64_t> first_expert_;  // by chunk
  std::vector<Tensor> chunk_offset_;
};

}  // namespace ops
}  // namespace trireme
