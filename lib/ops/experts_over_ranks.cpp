#include <utility>

#include "lib/ops/expert_inputs.hpp"
#include "lib/ops/experts.hpp"
#include "lib/ops/router.hpp"
#include "lib/ops/token_dispatch.hpp"

namespace trireme::ops {

namespace {

// The rows of one round that this rank received, and the results of their first layer.
struct RoundKept {
  Tensor x_NC{}, weight_N1{};
  ExpertMlp::Hidden made{};
};

// What the weight gradients of one round are computed from. `rows` has no x, and no weights if the
// experts have no biases.
struct RoundGradients {
  ExpertRows rows{};
  Tensor x_NC{}, h{}, dz_NF{}, dy_NC{};
  ExpertMlp::InnerRows inner{};
};

struct OverRanksKept {
  Tensor x_BTC{}, weight_TK{};
  ExpertOrder order{};  // without count_LE
  Tensor counts{};      // from gather_counts()
  RoundKept first{};
  std::vector<RoundGradients> later{};  // by round, if weight gradients are computed later
};

void add_weight_gradients(const Run& run, const ExpertMlp& mlp, const RoundGradients& g,
                          std::int64_t leaves, std::size_t round) {
  mlp.add_out_gradients(run, g.dy_NC, g.h, g.inner, g.rows, leaves, round);
  mlp.add_in_gradients(run, g.dz_NF, g.x_NC, g.inner, g.rows, leaves, round);
}

}  // namespace

ExpertMlp ExpertsOverRanks::mlp(const Run& run) const {
  const auto& ranks = run.expert_group->ranks;
  const auto own = owned_experts(experts_.count(), ranks.rank(), ranks.size());
  return experts_.mlp(own.first, own.count());
}

// Returns the rows of a chunk within a round's tensor, or an absent tensor if the chunk has none.
static Tensor part(const Tensor& of_round_NM, const TokenDispatch::Chunk& chunk) {
  const auto width = of_round_NM.shape()[1];
  return chunk.count > 0 ? of_round_NM.slice(chunk.first * width, {chunk.count, width}) : Tensor{};
}

static ExpertMlp::Hidden part(const ExpertMlp::Hidden& made, const TokenDispatch::Chunk& chunk) {
  return {part(made.gate_up, chunk), part(made.h, chunk)};
}

static ExpertRows rows_of_chunk(const Tensor& x_NC, const Tensor& weight_N1,
                                const TokenDispatch::Chunk& chunk, std::int64_t most) {
  return {x_NC,        weight_N1,          chunk.offset_E1,    {},
          chunk.count, chunk.first_expert, chunk.known_offset, most};
}

// Computes the first round last. The results that the first round saves then do not coexist with
// the temporary results of other rounds, so peak memory is that of one round.
std::vector<Tensor> ExpertsOverRanks::forward(const Run& run, std::vector<Tensor> inputs,
                                              Saved* saved) const {
  const ExpertInputs in = inputs_of(std::move(inputs));
  const auto& order = in.order;
  const ExpertMlp mlp = this->mlp(run);
  const auto kind = kind_of(saved);
  const Tensor counts = gather_counts(run, order.count_LE);
  const auto rounds = rounds_of(run, counts, order.token_R.shape()[0], experts_.count());
  if (run.totals && run.totals->more_rounds) *run.totals->more_rounds += std::ssize(rounds.all) - 1;
  const Tensor x_RC =
      take_rows(run, as_rows(in.x_BTC), order.token_R.view(), MemoryKind::transient);
  const Tensor weight_R1 =
      take_rows(run, as_column(in.weight_TK), order.choice_R.view(), MemoryKind::transient);
  const Tensor y_RC = Tensor::empty(run.backend, x_RC.shape(), x_RC.dtype(), MemoryKind::transient);
  for (auto i = rounds.all.size(); i-- > 0;) {
    const TokenDispatch dispatch(run, rounds, i);
    const auto room = [&](const Tensor& t, std::int64_t rows) {
      return room_for_rows(run, t.view(), rows, kind);
    };
    RoundKept round;
    const bool keep = saved && i == 0;
    if (keep) {
      round = {room(x_RC, rounds.most), room(weight_R1, rounds.most),
               mlp.room_for_hidden(run, rounds.most, kind)};
      saved->keep(
          OverRanksKept{.x_BTC = in.x_BTC,
                        .weight_TK = in.weight_TK,
                        .order = {order.offset_E1, order.token_R, order.choice_R, order.row_TK, {}},
                        .counts = counts,
                        .first = round});
    }
    const auto compute = [&](const TokenDispatch::Chunk& chunk, std::vector<Tensor> arrived) {
      const auto rows = rows_of_chunk(arrived[0], arrived[1], chunk, dispatch.most_of_chunk());
      const auto here =
          keep ? part(round.made, chunk) : mlp.room_for_hidden(run, dispatch.most_of_chunk(), kind);
      mlp.hidden(run, rows, here);
      const Tensor y_NC =
          room_for_rows(run, x_RC.view(), dispatch.most_of_chunk(), MemoryKind::transient);
      mlp.output(run, rows, here.h, y_NC);
      return TokenDispatch::ChunkResults{{{y_NC, y_RC}}};
    };
    dispatch.through({{x_RC, round.x_NC}, {weight_R1, round.weight_N1}}, compute).wait();
  }
  return {sum_rows(run, y_RC, order.row_TK, in.x_BTC.shape(), skip_of(in), kind)};
}

std::vector<Tensor> ExpertsOverRanks::gradients(const Run& run, const Tensor& dy, Saved& saved,
                                                std::span<const std::uint8_t> wanted,
                                                WeightGradients when) const {
  const ExpertMlp mlp = this->mlp(run);
  const bool add_now = when == WeightGradients::now;
  auto& kept = saved.as<OverRanksKept>();
  const auto& order = kept.order;
  const auto rounds = rounds_of(run, kept.counts, order.token_R.shape()[0], experts_.count(),
                                add_now ? RoundMemory::one_by_one : RoundMemory::kept);
  const auto leaves = leaves_of(run, kept.x_BTC, run.expert_group->ranks.size());
  const auto rows_of = [&](const Tensor& t) {
    return take_rows(run, as_rows(t), order.token_R.view(), MemoryKind::transient);
  };
  const Tensor dy_RC = rows_of(dy);
  const Tensor dx_RC =
      wanted[in_x] ? Tensor::empty(run.backend, dy_RC.shape(), dy_RC.dtype(), MemoryKind::transient)
                   : Tensor{};
  const Tensor dweight_R1 = Tensor::empty(run.backend, {dy_RC.shape()[0], 1},
                                          kept.weight_TK.dtype(), MemoryKind::transient);
  for (std::size_t i = 0; i < rounds.all.size(); ++i) {
    const TokenDispatch dispatch(run, rounds, i);
    RoundKept round = std::move(kept.first);  // absent tensors from the second round on
    if (i > 0) {
      const Tensor x_RC = dispatch.rows_again(as_rows(kept.x_BTC), order.token_R.view());
      const Tensor weight_R1 =
          dispatch.rows_again(as_column(kept.weight_TK), order.choice_R.view());
      round = {room_for_rows(run, x_RC.view(), rounds.most, MemoryKind::saved),
               room_for_rows(run, weight_R1.view(), rounds.most, MemoryKind::saved),
               mlp.room_for_hidden(run, rounds.most, MemoryKind::saved)};
      const auto compute = [&](const TokenDispatch::Chunk& chunk, std::vector<Tensor> arrived) {
        mlp.hidden(run, rows_of_chunk(arrived[0], arrived[1], chunk, dispatch.most_of_chunk()),
                   part(round.made, chunk));
        return TokenDispatch::ChunkResults{};
      };
      dispatch.through({{x_RC, round.x_NC}, {weight_R1, round.weight_N1}}, compute).wait();
    }
    const auto room = [&](const Tensor& t, std::int64_t rows) {
      return room_for_rows(run, t.view(), rows, MemoryKind::transient);
    };
    const Tensor dy_NC = room(dy_RC, rounds.most), dz_NF = room(round.made.gate_up, rounds.most);
    const auto compute = [&](const TokenDispatch::Chunk& chunk, std::vector<Tensor> arrived) {
      const auto most = dispatch.most_of_chunk();
      const auto rows =
          rows_of_chunk(part(round.x_NC, chunk), part(round.weight_N1, chunk), chunk, most);
      const ExpertMlp::RowGradients g{part(dz_NF, chunk), room(dweight_R1, most)};
      mlp.row_gradients(run, rows, part(round.made.gate_up, chunk), arrived[0], g);
      const Tensor dx_NC = wanted[in_x] ? room(dy_RC, most) : Tensor{};
      if (dx_NC) mlp.x_gradient(run, rows, g.gate_up, dx_NC);
      return TokenDispatch::ChunkResults{{{g.weight_N1, dweight_R1}, {dx_NC, dx_RC}}};
    };
    auto returning = dispatch.through({{dy_RC, dy_NC}}, compute);
    round.made.gate_up = {};
    ExpertRows rows{round.x_NC,
                    round.weight_N1,
                    dispatch.offset_E1(),
                    dispatch.token_N(),
                    dispatch.rows(),
                    0,
                    dispatch.known_offset(),
                    rounds.most};
    auto inner = mlp.inner_rows(run, rows, round.made.h, dz_NF, dy_NC);
    if (!mlp.has_bias()) rows.weight_N1 = {};
    rows.x_NC = {};
    RoundGradients g{std::move(rows), round.x_NC, round.made.h, dz_NF, dy_NC, std::move(inner)};
    if (add_now)
      add_weight_gradients(run, mlp, g, leaves, i);
    else
      kept.later.push_back(std::move(g));
    returning.wait();
  }
  return experts_input_gradients(run, order.row_TK, dy, dx_RC, dweight_R1, wanted);
}

std::vector<Tensor> ExpertsOverRanks::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                                      Saved& saved,
                                                      std::span<const std::uint8_t> wanted) const {
  return gradients(run, grad_out[0], saved, wanted, WeightGradients::later);
}

std::vector<Tensor> ExpertsOverRanks::backward(const Run& run, std::vector<Tensor> grad_out,
                                               Saved saved,
                                               std::span<const std::uint8_t> wanted) const {
  return gradients(run, grad_out[0], saved, wanted, WeightGradients::now);
}

void ExpertsOverRanks::weight_gradients(const Run& run, std::vector<Tensor>, Saved saved) const {
  const ExpertMlp mlp = this->mlp(run);
  const auto& kept = saved.as<OverRanksKept>();
  const auto leaves = leaves_of(run, kept.x_BTC, run.expert_group->ranks.size());
  for (std::size_t i = 0; i < kept.later.size(); ++i)
    add_weight_gradients(run, mlp, kept.later[i], leaves, i);
}

}  // namespace trireme::ops
