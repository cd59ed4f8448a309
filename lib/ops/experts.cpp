#include "lib/ops/experts.hpp"

#include <algorithm>
#include <utility>

#include "lib/ops/expert_travel.hpp"
#include "lib/ops/router.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// Inputs by place.
enum In : std::uint8_t { x, weight, offset, token, row, place, count, skip };
// What is saved: these, and of the rows that are computed here
enum Saving : std::uint8_t { kept_x, kept_offset, kept_token, kept_place, kept_weight, first_kept };
// where they are all this rank's
enum Here : std::uint8_t { gate_up = first_kept, activated, end_here };
// and where they come from other ranks, of the first round; in halves, then the same of each
// round again with the gradients.
enum Arrived : std::uint8_t {
  kept_row = first_kept,
  kept_counts,
  first_x,
  first_weight,
  first_gate_up,
  first_h,
  end_arrived
};
enum OfRound : std::uint8_t {
  round_x,
  round_h,
  round_dz,
  round_dy,
  round_offset,
  round_token,
  round_count
};

bool shared_out(const Run& run) {
  return run.experts && run.experts->ranks.size() > 1;
}

OwnedExperts owned(const Run& run, std::int64_t experts) {
  if (!shared_out(run)) return {0, experts};
  const auto& ranks = run.experts->ranks;
  return owned_experts(experts, ranks.rank(), ranks.size());
}

std::span<const ParamId> own_part(const Run& run, std::span<const ParamId> of_all) {
  const auto mine = owned(run, std::ssize(of_all));
  return of_all.subspan(static_cast<std::size_t>(mine.first),
                        static_cast<std::size_t>(mine.count()));
}

Tensor sum_rows(const Run& run, const Tensor& x_RC, const Tensor& place_TK, const Shape& shape,
                const ConstView& skip_TC, Kind kind) {
  Tensor y = Tensor::empty(run.backend, shape, x_RC.dtype(), kind);
  run.backend.put(Queue::compute, kernel::SumRows{.y_TC = as_rows(y),
                                                  .x_RC = x_RC.view(),
                                                  .place_TK = place_TK.view(),
                                                  .skip_TC = skip_TC});
  return y;
}

// One number for each choice, as rows of one column.
View as_column(const Tensor& t) {
  return t.view().reshaped({t.shape().count(), 1});
}

ConstView skip_of(const std::vector<Tensor>& in) {
  return in.size() > skip ? ConstView(as_rows(in[skip])) : ConstView{};
}

}  // namespace

Experts::Experts(std::vector<ParamId> in, std::vector<ParamId> out, std::int64_t width)
    : params_(std::move(in)), width_(width) {
  params_.insert(params_.end(), out.begin(), out.end());
}

ExpertMlp Experts::mlp(const Run& run) const {
  const auto half = params_.size() / 2;
  return {own_part(run, std::span(params_).first(half)),
          own_part(run, std::span(params_).last(half)), width_};
}

// Of the tokens of as many ranks.
static std::int64_t leaves_of(const Run& run, const Tensor& x_BTC, int ranks) {
  const auto leaf = run.place.exact_chunk;
  return leaf > 0 ? as_rows(x_BTC).extent[0] / leaf * ranks : 0;
}

Tensor Experts::forward_here(const Run& run, std::vector<Tensor> in_tensors, Saved* saved) const {
  const ExpertMlp experts = mlp(run);
  const auto kind = kind_of(saved);
  const auto shape = in_tensors[x].shape();
  ExpertRows rows{take_rows(run, as_rows(in_tensors[x]), in_tensors[token].view(), Kind::transient),
                  take_rows(run, as_column(in_tensors[weight]), in_tensors[row].view(), kind),
                  in_tensors[offset],
                  {},
                  in_tensors[token].shape()[0]};
  auto made = experts.room_for_hidden(run, rows.count, kind);
  experts.hidden(run, rows, made);
  if (saved)
    *saved = {in_tensors[x],
              in_tensors[offset],
              in_tensors[token],
              in_tensors[place],
              rows.weight_N1,
              made.gate_up,
              made.h};
  made.gate_up = rows.x_NC = {};
  const Tensor y_RC = room_for_rows(run, as_rows(in_tensors[x]), rows.count, Kind::transient);
  experts.output(run, rows, made.h, y_RC);
  made = {};
  return sum_rows(run, y_RC, in_tensors[place], shape, skip_of(in_tensors), kind);
}

// Leaves the gradient of what swiglu reads in its place.
std::vector<Tensor> Experts::gradients_here(const Run& run, const std::vector<Tensor>& grad_out,
                                            Saved& saved,
                                            std::span<const std::uint8_t> wanted) const {
  const Tensor& dy = grad_out[0];
  const ExpertMlp experts = mlp(run);
  const ExpertRows rows{
      saved[kept_x], saved[kept_weight], saved[kept_offset], {}, saved[kept_token].shape()[0]};
  std::vector<Tensor> grad_in(wanted.size());
  if (wanted.size() > skip && wanted[skip]) grad_in[skip] = dy;
  if (!wanted[x] && !wanted[weight] && !wants_any(run, experts.in())) return grad_in;
  const Tensor dy_RC = take_rows(run, as_rows(dy), saved[kept_token].view(), Kind::transient);
  const auto room = [&](const Tensor& t) {
    return room_for_rows(run, t.view(), rows.count, Kind::transient);
  };
  const ExpertMlp::RowGradients g{room(saved[gate_up]), room(rows.weight_N1),
                                  wanted[x] ? room(dy_RC) : Tensor{}};
  experts.row_gradients(run, rows, saved[gate_up], dy_RC, g);
  saved[gate_up] = g.gate_up;
  saved[kept_weight] = {};
  const Tensor& place_TK = saved[kept_place];
  if (wanted[weight])
    grad_in[weight] = take_rows(run, g.weight_N1.view(), place_TK.view(), Kind::transient)
                          .reshaped(place_TK.shape());
  if (wanted[x])
    grad_in[x] = sum_rows(run, g.x_NC, place_TK, saved[kept_x].shape(), {}, Kind::transient);
  return grad_in;
}

// Rows of a chunk among a round's; absent where there are none.
static Tensor part(const Tensor& of_round_NM, const ExpertTravel::Chunk& chunk) {
  const auto width = of_round_NM.shape()[1];
  return chunk.count > 0 ? of_round_NM.slice(chunk.first * width, {chunk.count, width}) : Tensor{};
}

static ExpertMlp::Hidden part(const ExpertMlp::Hidden& made, const ExpertTravel::Chunk& chunk) {
  return {part(made.gate_up, chunk), part(made.h, chunk)};
}

// The first round last, so that what it keeps is not there beside what others use: the account is
// that of one round.
Tensor Experts::forward_over_ranks(const Run& run, std::vector<Tensor> in_tensors,
                                   Saved* saved) const {
  const ExpertMlp experts = mlp(run);
  const auto kind = kind_of(saved);
  const auto shape = in_tensors[x].shape();
  const auto rows_here = in_tensors[token].shape()[0];
  const Tensor counts = gather_counts(run, in_tensors[count]);
  const auto rounds = rounds_of(run, counts, rows_here, count_of_experts());
  if (run.totals && run.totals->more_rounds) *run.totals->more_rounds += std::ssize(rounds.all) - 1;
  if (saved)
    *saved = {in_tensors[x],
              in_tensors[offset],
              in_tensors[token],
              in_tensors[place],
              in_tensors[weight],
              in_tensors[row],
              counts};
  const Tensor x_RC =
      take_rows(run, as_rows(in_tensors[x]), in_tensors[token].view(), Kind::transient);
  const Tensor weight_R1 =
      take_rows(run, as_column(in_tensors[weight]), in_tensors[row].view(), Kind::transient);
  const Tensor y_RC = Tensor::empty(run.backend, x_RC.shape(), x_RC.dtype(), Kind::transient);
  for (auto i = rounds.all.size(); i-- > 0;) {
    const ExpertTravel travel(run, rounds.all[i], rounds.most);
    const auto room = [&](const Tensor& t, std::int64_t rows) {
      return room_for_rows(run, t.view(), rows, kind);
    };
    Tensor x_NC, weight_N1;
    ExpertMlp::Hidden made;
    const bool keep = saved && i == 0;
    if (keep) {
      x_NC = room(x_RC, rounds.most);
      weight_N1 = room(weight_R1, rounds.most);
      made = experts.room_for_hidden(run, rounds.most, kind);
      saved->insert(saved->end(), {x_NC, weight_N1, made.gate_up, made.h});
    }
    const auto compute = [&](const ExpertTravel::Chunk& chunk, std::vector<Tensor> arrived) {
      const ExpertRows rows{arrived[0], arrived[1], chunk.offset_E1, {}, chunk.count};
      const auto here =
          keep ? part(made, chunk) : experts.room_for_hidden(run, travel.most_of_chunk(), kind);
      experts.hidden(run, rows, here);
      const Tensor y_NC = room(x_RC, travel.most_of_chunk());
      experts.output(run, rows, here.h, y_NC);
      return ExpertTravel::Made{{{y_NC, y_RC}}};
    };
    travel.through({{x_RC, x_NC}, {weight_R1, weight_N1}}, compute).wait();
  }
  return sum_rows(run, y_RC, in_tensors[place], shape, skip_of(in_tensors), kind);
}

std::vector<Tensor> Experts::gradients_over_ranks(const Run& run, const Tensor& dy, Saved& saved,
                                                  std::span<const std::uint8_t> wanted,
                                                  bool add_now) const {
  const ExpertMlp experts = mlp(run);
  const auto rounds = rounds_of(run, saved[kept_counts], saved[kept_token].shape()[0],
                                count_of_experts(), add_now ? Rounds::one_by_one : Rounds::kept);
  const auto leaves = leaves_of(run, saved[kept_x], run.experts->ranks.size());
  const auto rows_of = [&](const Tensor& t) {
    return take_rows(run, as_rows(t), saved[kept_token].view(), Kind::transient);
  };
  const Tensor dy_RC = rows_of(dy);
  const Tensor dx_RC =
      wanted[x] ? Tensor::empty(run.backend, dy_RC.shape(), dy_RC.dtype(), Kind::transient)
                : Tensor{};
  const Tensor dweight_R1 = Tensor::empty(run.backend, {dy_RC.shape()[0], 1},
                                          saved[kept_weight].dtype(), Kind::transient);
  std::vector<Tensor> later;
  for (std::size_t i = 0; i < rounds.all.size(); ++i) {
    const ExpertTravel travel(run, rounds.all[i], rounds.most);
    Tensor x_NC, weight_N1;
    ExpertMlp::Hidden made;
    if (i == 0) {
      x_NC = std::move(saved[first_x]);
      weight_N1 = std::move(saved[first_weight]);
      made = {std::move(saved[first_gate_up]), std::move(saved[first_h])};
    } else {
      const Tensor x_RC = travel.rows_again(as_rows(saved[kept_x]), saved[kept_token].view());
      const Tensor weight_R1 =
          travel.rows_again(as_column(saved[kept_weight]), saved[kept_row].view());
      x_NC = room_for_rows(run, x_RC.view(), rounds.most, Kind::saved);
      weight_N1 = room_for_rows(run, weight_R1.view(), rounds.most, Kind::saved);
      made = experts.room_for_hidden(run, rounds.most, Kind::saved);
      const auto compute = [&](const ExpertTravel::Chunk& chunk, std::vector<Tensor> arrived) {
        experts.hidden(run, {arrived[0], arrived[1], chunk.offset_E1, {}, chunk.count},
                       part(made, chunk));
        return ExpertTravel::Made{};
      };
      travel.through({{x_RC, x_NC}, {weight_R1, weight_N1}}, compute).wait();
    }
    const auto room = [&](const Tensor& t, std::int64_t rows) {
      return room_for_rows(run, t.view(), rows, Kind::transient);
    };
    const Tensor dy_NC = room(dy_RC, rounds.most), dz_NF = room(made.gate_up, rounds.most);
    const auto compute = [&](const ExpertTravel::Chunk& chunk, std::vector<Tensor> arrived) {
      const ExpertRows rows{
          part(x_NC, chunk), part(weight_N1, chunk), chunk.offset_E1, {}, chunk.count};
      const auto most = travel.most_of_chunk();
      const ExpertMlp::RowGradients g{part(dz_NF, chunk), room(dweight_R1, most),
                                      wanted[x] ? room(dy_RC, most) : Tensor{}};
      experts.row_gradients(run, rows, part(made.gate_up, chunk), arrived[0], g);
      return ExpertTravel::Made{{{g.weight_N1, dweight_R1}, {g.x_NC, dx_RC}}};
    };
    auto returning = travel.through({{dy_RC, dy_NC}}, compute);
    made.gate_up = {};
    if (add_now) {
      const ExpertRows rows{{}, {}, travel.offset_E1(), travel.token_N(), travel.rows()};
      experts.add_gradients(run, experts.out(), dy_NC, made.h, rows, leaves, i);
      experts.add_gradients(run, experts.in(), dz_NF, x_NC, rows, leaves, i);
    } else {
      later.insert(later.end(), {x_NC, made.h, dz_NF, dy_NC, travel.offset_E1(), travel.token_N()});
    }
    returning.wait();
  }
  std::vector<Tensor> grad_in(wanted.size());
  if (wanted.size() > skip && wanted[skip]) grad_in[skip] = dy;
  const Tensor& place_TK = saved[kept_place];
  if (wanted[weight])
    grad_in[weight] = take_rows(run, dweight_R1.view(), place_TK.view(), Kind::transient)
                          .reshaped(place_TK.shape());
  if (wanted[x])
    grad_in[x] = sum_rows(run, dx_RC, place_TK, saved[kept_x].shape(), {}, Kind::transient);
  saved.resize(end_arrived);
  saved.insert(saved.end(), later.begin(), later.end());
  return grad_in;
}

std::vector<Tensor> Experts::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  return {shared_out(run) ? forward_over_ranks(run, std::move(in), saved)
                          : forward_here(run, std::move(in), saved)};
}

std::vector<Tensor> Experts::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                             Saved& saved,
                                             std::span<const std::uint8_t> wanted) const {
  if (!shared_out(run)) return gradients_here(run, grad_out, saved, wanted);
  return gradients_over_ranks(run, grad_out[0], saved, wanted, false);
}

void Experts::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  const ExpertMlp experts = mlp(run);
  if (!shared_out(run)) {
    const auto leaves = leaves_of(run, saved[kept_x], 1);
    const ExpertRows rows{
        {}, {}, saved[kept_offset], saved[kept_token], saved[kept_token].shape()[0]};
    const auto taken = [&](const Tensor& t) {
      return take_rows(run, as_rows(t), saved[kept_token].view(), Kind::transient);
    };
    if (wants_any(run, experts.out()))
      experts.add_gradients(run, experts.out(), taken(grad_out[0]), saved[activated], rows, leaves);
    saved[activated] = {};
    if (wants_any(run, experts.in()))
      experts.add_gradients(run, experts.in(), saved[gate_up], taken(saved[kept_x]), rows, leaves);
    return;
  }
  const auto rounds = rounds_of(run, saved[kept_counts], saved[kept_token].shape()[0],
                                count_of_experts(), Rounds::kept);
  const auto leaves = leaves_of(run, saved[kept_x], run.experts->ranks.size());
  for (std::size_t i = 0; i < rounds.all.size(); ++i) {
    const auto of = [&](OfRound what) -> const Tensor& {
      return saved[end_arrived + i * round_count + what];
    };
    const ExpertRows rows{of(round_x), {}, of(round_offset), of(round_token), rounds.all[i].rows()};
    experts.add_gradients(run, experts.out(), of(round_dy), of(round_h), rows, leaves, i);
    experts.add_gradients(run, experts.in(), of(round_dz), of(round_x), rows, leaves, i);
  }
}

std::vector<Tensor> Experts::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                      std::span<const std::uint8_t> wanted) const {
  if (!shared_out(run)) return Op::backward(run, std::move(grad_out), std::move(saved), wanted);
  return gradients_over_ranks(run, grad_out[0], saved, wanted, true);
}

}  // namespace trireme::ops
