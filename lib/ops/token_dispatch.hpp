#pragma once
// TokenDispatch: sends one round of rows to the ranks that own their experts, and sends the results
// back. Both directions are all-to-alls in which ranks send different numbers of rows. One
// direction is the transpose of the other. A round is divided into chunks, so that one chunk is
// computed while others are in transit.
#include <array>
#include <functional>
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/comm/pending.hpp"
#include "lib/ops/expert_rounds.hpp"

namespace trireme {

// The ranks that together hold all experts.
struct ExpertGroup {
  const Communicator& ranks;
  // Maximum number of rows of a rank per round. 0 means 1.25 times the number under an even load.
  std::int64_t rows_of_round = 0;
};

namespace ops {

// Rounds for the choices of all ranks. Ranks must first exchange their counts. If the backend
// computes no values (in plans), an even load is assumed.
struct RoundPlan {
  ExpertCounts counts;
  std::vector<ExpertRound> all;
  std::int64_t most = 0;         // maximum rows of this rank in a round
  std::int64_t most_of_any = 0;  // the same, of any rank
};
// Whether a round's memory is freed before the next round, or kept for weight gradients that are
// computed later.
enum class RoundMemory : std::uint8_t { one_by_one, kept };
// Returns how many rows each rank has for each leaf (chunk of tokens, see ExpertCounts) and expert,
// as [ranks, leaves, E]. Collective over Run::expert_group.
Tensor gather_counts(const Run&, const Tensor& count_LE);
// Returns the rounds in which rows are sent to experts. `rows` is the number of this rank's rows,
// and `experts` is E, the total number of experts.
RoundPlan rounds_of(const Run&, const Tensor& counts, std::int64_t rows, std::int64_t experts,
                    RoundMemory = RoundMemory::one_by_one);

// One round: sends rows to their experts and returns the results.
class TokenDispatch {
 public:
  // One chunk of the rows of a round, as the rank that owns their experts sees it.
  struct Chunk {
    std::int64_t first, count;  // range of the round's rows, which are sorted by expert
    // Index at which the rows of each expert begin in this chunk, and then the end, for experts
    // from `first_expert` on. Experts without rows at the beginning or end of the list are omitted.
    std::int64_t first_expert;
    const Tensor& offset_E1;
    const std::vector<std::int32_t>& known_offset;  // the numbers in offset_E1
  };
  // Rows to send. `rows_RC` contains all rows of this rank, sorted by expert. They arrive in the
  // first rows() rows of `into_NC`. If `into_NC` is absent, they arrive in memory for one chunk.
  struct Outgoing {
    Tensor rows_RC, into_NC;
  };
  // Results to send back: the rows that were computed for a chunk, and the tensor on the source
  // ranks that receives them. If `into_RC` is absent, nothing is sent.
  struct Returned {
    Tensor rows_NC, into_RC;
  };
  using ChunkResults = std::array<Returned, 2>;
  // Handle of results that are still in transit. Call wait() before you read the results.
  class Returning {
   public:
    void wait();

   private:
    friend class TokenDispatch;
    std::vector<Pending> pending_;
  };

  // Dispatches round number `round` of the plan.
  TokenDispatch(const Run&, const RoundPlan&, std::size_t round);

  // Returns rows of x_TC like take_rows(). An earlier pass must have taken the same rows. In a
  // pretended round, the function only allocates the rows.
  Tensor rows_again(const ConstView& x_TC, const ConstView& ids_R) const;
  // Processes all chunks in order. `compute` receives the arrived rows of each entry of `there`. A
  // tensor is absent if the chunk has no rows and `into_NC` was given. During `compute`, the next
  // chunk arrives and the results of the previous chunk are sent back.
  [[nodiscard]] Returning through(
      const std::vector<Outgoing>& there,
      const std::function<ChunkResults(const Chunk&, std::vector<Tensor> arrived)>& compute) const;

  std::int64_t rows() const { return round_.rows(); }
  std::int64_t most_of_chunk() const { return rows_of_chunk(most_, std::ssize(round_.chunks)); }
  const Tensor& offset_E1() const { return offset_; }
  // Returns the numbers in offset_E1().
  const std::vector<std::int32_t>& known_offset() const { return round_.offset; }
  // Returns, for each row, the leaf that contains the row's token. A leaf is a chunk of tokens
  // whose gradients are summed as one term (see ExpertCounts). Each element is the leaf's index
  // multiplied by PassContext::exact_chunk.
  const Tensor& token_N() const { return token_; }

 private:
  struct Moving {
    Tensor rows;
    Pending pending;
  };
  Pending exchange(const Tensor& to, const std::vector<RowRange>& take, const Tensor& from,
                   const std::vector<RowRange>& give) const;
  std::vector<Moving> depart(std::size_t chunk, const std::vector<Outgoing>&) const;
  Tensor arrive(std::size_t chunk, Moving, const Tensor& into_NC) const;
  Pending send_back(std::size_t chunk, const Returned&) const;

  const Run& run_;
  const ExpertRound& round_;
  std::int64_t most_, most_of_any_;
  std::vector<std::int64_t> first_;              // first row of each chunk, and the end
  std::vector<std::vector<RowRange>> received_;  // by chunk and rank
  Tensor place_, back_, token_, offset_;
  std::vector<std::int64_t> first_expert_;  // by chunk
  std::vector<Tensor> chunk_offset_;
  std::vector<std::vector<std::int32_t>> known_offset_;  // by chunk
};

}  // namespace ops
}  // namespace trireme
