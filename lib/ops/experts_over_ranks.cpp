#include <utility>

#include "lib/ops/expert_inputs.hpp"
#include "lib/ops/experts.hpp"
#include "lib/ops/router.hpp"
#include "lib/ops/token_dispatch.hpp"

namespace trireme::ops {

namespace {

// Indices of further tensors in Saved, after those of Kept. The tensors from `first_x` on are
// results of the first round. If weight gradients are computed later, the tensors of OfRound follow
// for each round.
enum OverRanks : std::uint8_t {
  kept_choice = end_kept,
  kept_counts,
  first_x,
  first_weight,
  first_gate_up,
  first_h,
  end_first
};
enum OfRound : std::uint8_t {
  round_x,
  round_h,
  round_dz,
  round_dy,
  round_offset,
  round_token,
  round_weight,  // absent if the experts have no biases
  round_in_t,    // this and the following are ExpertMlp::InnerRows
  round_in_u,
  round_out_t,
  round_out_u,
  end_round
};

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
std::vector<Tensor> ExpertsOverRanks::forward(const Run& run, std::vector<Tensor> in,
                                              Saved* saved) const {
  const ExpertMlp mlp = this->mlp(run);
  const auto kind = kind_of(saved);
  const auto shape = in[in_x].shape();
  const auto rows_here = in[in_token].shape()[0];
  const Tensor counts = gather_counts(run, in[in_count]);
  const auto rounds = rounds_of(run, counts, rows_here, experts_.count());
  if (run.totals && run.totals->more_rounds) *run.totals->more_rounds += std::ssize(rounds.all) - 1;
  if (saved)
    *saved = {in[in_x],      in[in_offset], in[in_token], in[in_row],
              in[in_weight], in[in_choice], counts};
  const Tensor x_RC = take_rows(run, as_rows(in[in_x]), in[in_token].view(), MemoryKind::transient);
  const Tensor weight_R1 =
      take_rows(run, as_column(in[in_weight]), in[in_choice].view(), MemoryKind::transient);
  const Tensor y_RC = Tensor::empty(run.backend, x_RC.shape(), x_RC.dtype(), MemoryKind::transient);
  for (auto i = rounds.all.size(); i-- > 0;) {
    const TokenDispatch dispatch(run, rounds.all[i], rounds.most);
    const auto room = [&](const Tensor& t, std::int64_t rows) {
      return room_for_rows(run, t.view(), rows, kind);
    };
    Tensor x_NC, weight_N1;
    ExpertMlp::Hidden made;
    const bool keep = saved && i == 0;
    if (keep) {
      x_NC = room(x_RC, rounds.most);
      weight_N1 = room(weight_R1, rounds.most);
      made = mlp.room_for_hidden(run, rounds.most, kind);
      saved->insert(saved->end(), {x_NC, weight_N1, made.gate_up, made.h});
    }
    const auto compute = [&](const TokenDispatch::Chunk& chunk, std::vector<Tensor> arrived) {
      const auto rows = rows_of_chunk(arrived[0], arrived[1], chunk, dispatch.most_of_chunk());
      const auto here =
          keep ? part(made, chunk) : mlp.room_for_hidden(run, dispatch.most_of_chunk(), kind);
      mlp.hidden(run, rows, here);
      const Tensor y_NC =
          room_for_rows(run, x_RC.view(), dispatch.most_of_chunk(), MemoryKind::transient);
      mlp.output(run, rows, here.h, y_NC);
      return TokenDispatch::ChunkResults{{{y_NC, y_RC}}};
    };
    dispatch.through({{x_RC, x_NC}, {weight_R1, weight_N1}}, compute).wait();
  }
  return {sum_rows(run, y_RC, in[in_row], shape, skip_of(in), kind)};
}

std::vector<Tensor> ExpertsOverRanks::gradients(const Run& run, const Tensor& dy, Saved& saved,
                                                std::span<const std::uint8_t> wanted,
                                                WeightGradients when) const {
  const ExpertMlp mlp = this->mlp(run);
  const bool add_now = when == WeightGradients::now;
  const auto rounds =
      rounds_of(run, saved[kept_counts], saved[kept_token].shape()[0], experts_.count(),
                add_now ? RoundMemory::one_by_one : RoundMemory::kept);
  const auto leaves = leaves_of(run, saved[kept_x], run.expert_group->ranks.size());
  const auto rows_of = [&](const Tensor& t) {
    return take_rows(run, as_rows(t), saved[kept_token].view(), MemoryKind::transient);
  };
  const Tensor dy_RC = rows_of(dy);
  const Tensor dx_RC =
      wanted[in_x] ? Tensor::empty(run.backend, dy_RC.shape(), dy_RC.dtype(), MemoryKind::transient)
                   : Tensor{};
  const Tensor dweight_R1 = Tensor::empty(run.backend, {dy_RC.shape()[0], 1},
                                          saved[kept_weight].dtype(), MemoryKind::transient);
  std::vector<Tensor> later;
  for (std::size_t i = 0; i < rounds.all.size(); ++i) {
    const TokenDispatch dispatch(run, rounds.all[i], rounds.most);
    Tensor x_NC, weight_N1;
    ExpertMlp::Hidden made;
    if (i == 0) {
      x_NC = std::move(saved[first_x]);
      weight_N1 = std::move(saved[first_weight]);
      made = {std::move(saved[first_gate_up]), std::move(saved[first_h])};
    } else {
      const Tensor x_RC = dispatch.rows_again(as_rows(saved[kept_x]), saved[kept_token].view());
      const Tensor weight_R1 =
          dispatch.rows_again(as_column(saved[kept_weight]), saved[kept_choice].view());
      x_NC = room_for_rows(run, x_RC.view(), rounds.most, MemoryKind::saved);
      weight_N1 = room_for_rows(run, weight_R1.view(), rounds.most, MemoryKind::saved);
      made = mlp.room_for_hidden(run, rounds.most, MemoryKind::saved);
      const auto compute = [&](const TokenDispatch::Chunk& chunk, std::vector<Tensor> arrived) {
        mlp.hidden(run, rows_of_chunk(arrived[0], arrived[1], chunk, dispatch.most_of_chunk()),
                   part(made, chunk));
        return TokenDispatch::ChunkResults{};
      };
      dispatch.through({{x_RC, x_NC}, {weight_R1, weight_N1}}, compute).wait();
    }
    const auto room = [&](const Tensor& t, std::int64_t rows) {
      return room_for_rows(run, t.view(), rows, MemoryKind::transient);
    };
    const Tensor dy_NC = room(dy_RC, rounds.most), dz_NF = room(made.gate_up, rounds.most);
    const auto compute = [&](const TokenDispatch::Chunk& chunk, std::vector<Tensor> arrived) {
      const auto most = dispatch.most_of_chunk();
      const auto rows = rows_of_chunk(part(x_NC, chunk), part(weight_N1, chunk), chunk, most);
      const ExpertMlp::RowGradients g{part(dz_NF, chunk), room(dweight_R1, most)};
      mlp.row_gradients(run, rows, part(made.gate_up, chunk), arrived[0], g);
      const Tensor dx_NC = wanted[in_x] ? room(dy_RC, most) : Tensor{};
      if (dx_NC) mlp.x_gradient(run, rows, g.gate_up, dx_NC);
      return TokenDispatch::ChunkResults{{{g.weight_N1, dweight_R1}, {dx_NC, dx_RC}}};
    };
    auto returning = dispatch.through({{dy_RC, dy_NC}}, compute);
    made.gate_up = {};
    const ExpertRows rows{x_NC,
                          weight_N1,
                          dispatch.offset_E1(),
                          dispatch.token_N(),
                          dispatch.rows(),
                          0,
                          dispatch.known_offset(),
                          rounds.most};
    const auto inner = mlp.inner_rows(run, rows, made.h, dz_NF, dy_NC);
    if (add_now) {
      mlp.add_out_gradients(run, dy_NC, made.h, inner, rows, leaves, i);
      mlp.add_in_gradients(run, dz_NF, x_NC, inner, rows, leaves, i);
    } else {
      later.insert(later.end(), {x_NC, made.h, dz_NF, dy_NC, dispatch.offset_E1(),
                                 dispatch.token_N(), mlp.has_bias() ? weight_N1 : Tensor{},
                                 inner.in_t, inner.in_u, inner.out_t, inner.out_u});
    }
    returning.wait();
  }
  auto grad_in = experts_input_gradients(run, saved, dy, dx_RC, dweight_R1, wanted);
  saved.resize(end_first);
  saved.insert(saved.end(), later.begin(), later.end());
  return grad_in;
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
  const auto rounds = rounds_of(run, saved[kept_counts], saved[kept_token].shape()[0],
                                experts_.count(), RoundMemory::kept);
  const auto leaves = leaves_of(run, saved[kept_x], run.expert_group->ranks.size());
  for (std::size_t i = 0; i < rounds.all.size(); ++i) {
    const auto of = [&](OfRound what) -> const Tensor& {
      return saved[end_first + i * end_round + what];
    };
    const ExpertRows rows{of(round_x),         of(round_weight),     of(round_offset),
                          of(round_token),     rounds.all[i].rows(), 0,
                          rounds.all[i].offset};
    const ExpertMlp::InnerRows inner{of(round_in_t), of(round_in_u), of(round_out_t),
                                     of(round_out_u)};
    mlp.add_out_gradients(run, of(round_dy), of(round_h), inner, rows, leaves, i);
    mlp.add_in_gradients(run, of(round_dz), of(round_x), inner, rows, leaves, i);
  }
}

}  // namespace trireme::ops
