#include "lib/ops/router.hpp"

#include <utility>

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// What Router and SigmoidGate save.
struct RouterKept {
  Tensor x{}, logits_TE{}, choice_RTK{};
  Tensor dlogits_TE{};  // replaces the logits and choices in the first half of the backward pass
};

}  // namespace

// Returns the logits z_TE = x_TC w_EC' + bias_E in the wide type. `params` are the weight and the
// bias, which may be missing. A product with a wide result has no epilogue with a bias.
static Tensor logits_of(const Run& run, const Tensor& x, std::span<const ParamId> params,
                        MemoryKind kind) {
  const ConstView x_TC = as_rows(x), w_EC = run.weights[params[0]];
  Tensor z = Tensor::empty(run.backend, {x_TC.extent[0], w_EC.extent[0]}, wide(x.dtype()), kind);
  multiply_rows(run, {.c_MN = z.view(), .a_MK = x_TC, .b_KN = w_EC.transposed()});
  if (params.size() > 1) {
    auto bias_TE = run.weights[params[1]].reshaped({1, w_EC.extent[0]});
    bias_TE.extent[0] = x_TC.extent[0];
    bias_TE.stride[0] = 0;
    run.backend.put(Queue::compute,
                    kernel::Copy{.dst = z.view(), .src = bias_TE, .how = Accumulate::add});
  }
  return z;
}

static Tensor input_gradient(const Run& run, const Tensor& dz, ParamId weight, const Shape& x) {
  Tensor dx = Tensor::empty(run.backend, x, dz.dtype(), MemoryKind::transient);
  multiply_rows(run, {.c_MN = as_rows(dx), .a_MK = dz.view(), .b_KN = run.weights[weight]});
  return dx;
}

static void add_gradient(const Run& run, const Tensor& dz, const Tensor& x,
                         std::span<const ParamId> params) {
  if (!wants_any(run, params)) return;
  const ConstView dz_TE = dz.view(), x_TC = as_rows(x);
  run.gradients->add(
      params, dz_TE.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
        const auto dz_RE = rows_of(dz_TE, r);
        const View dbias = dst.size() > 1 ? dst[1] : View{};
        if (dst[0])
          run.backend.put(Queue::compute, kernel::Matmul{.c_MN = dst[0],
                                                         .a_MK = dz_RE.transposed(),
                                                         .b_KN = rows_of(x_TC, r),
                                                         .how = how,
                                                         .epilogue = {.row_sum_M = dbias},
                                                         .order = sum_order(run)});
        else
          run.backend.put(Queue::compute,
                          kernel::ColumnSum{.out_C = dbias, .how = how, .x_TC = dz_RE});
      });
}

Router::Router(ParamId weight, ParamId bias, ParamId logit_bias, const Config& config,
               std::int64_t layer)
    : params_{weight}, bias_(bias), config_(config), layer_(layer) {
  if (logit_bias != ParamId{}) params_.push_back(logit_bias);
}

// Returns the document indices of a sequence-parallel rank's tokens. The view is absent if load is
// balanced within samples and every token counts.
static ConstView counted_of(const Run& run, std::int64_t rank) {
  const auto& all = run.pass.counted_RBT;
  if (!all) return {};
  return all.slice(0, rank, 1).reshaped({all.extent[1] * all.extent[2]});
}

// Returns the number of ranks whose choices are counted together. With a balancing loss, these are
// all sequence-parallel ranks, because samples are divided among them.
static int ranks_counted(const Run& run) {
  return run.pass.balance_scale == 0 ? 1 : run.seq.size();
}

static Tensor choices_of(const Run& run, const Tensor& choice_RTK, int rank) {
  const auto& s = choice_RTK.shape();
  const auto tokens = s[0] / ranks_counted(run), first = ranks_counted(run) > 1 ? rank * tokens : 0;
  return choice_RTK.slice(first * s[1], {tokens, s[1]});
}

static void gather(const Run& run, const Tensor& choice_RTK, const Tensor& own_TK) {
  if (ranks_counted(run) == 1) return;
  auto& b = run.backend;
  const auto flat = [](const Tensor& t) { return t.view().reshaped({t.shape().count()}); };
  b.wait(Queue::exchange, b.record(Queue::compute));
  auto pending = run.seq.all_gather(b, Queue::exchange, flat(choice_RTK), flat(own_TK),
                                    {OperationKind::exchange, "choices", run.pass.microbatch});
  choice_RTK.used(pending.wait(Queue::compute));
}

Tensor Router::count_together(const Run& run, const Tensor& choice_RTK,
                              std::int64_t samples) const {
  if (run.pass.balance_scale == 0) return {};
  const auto rows = run.pass.counted_RBT ? choice_RTK.shape()[0] / ranks_counted(run) : samples;
  Tensor count =
      Tensor::empty(run.backend, {rows, config_.experts}, DType::i64, MemoryKind::transient);
  for (int r = 0; r < ranks_counted(run); ++r)
    run.backend.put(Queue::compute,
                    kernel::CountChoices{.count_BE = count.view(),
                                         .how = r ? Accumulate::add : Accumulate::overwrite,
                                         .choice_TK = choices_of(run, choice_RTK, r).view(),
                                         .counted_T = counted_of(run, r)});
  return count;
}

void Router::add_totals(const Run& run, const Tensor& logits_TE, const Tensor& choice_TK,
                        const Tensor& count_BE) const {
  const auto& totals = *run.totals;
  const auto counted_T = counted_of(run, run.seq.rank());
  run.backend.put(Queue::compute,
                  kernel::CountChoices{.count_BE = totals.load_LE.slice(0, layer_, 1),
                                       .how = Accumulate::add,
                                       .choice_TK = choice_TK.view(),
                                       .counted_T = counted_T});
  if (!count_BE && run.pass.z_scale == 0) return;
  run.backend.put(Queue::compute, kernel::RouterLosses{.sums = totals.losses,
                                                       .logits_TE = logits_TE.view(),
                                                       .count_BE = count_BE.view(),
                                                       .counted_T = counted_T,
                                                       .scores = config_.scores,
                                                       .largest = totals.largest});
}

// Returns the number of leaves whose choices are counted separately. With exact sums, rounds of
// experts must not split a leaf (ExpertCounts).
static std::int64_t leaves_of(const Run& run, std::int64_t tokens) {
  const auto leaf = run.pass.exact_chunk;
  return leaf > 0 && run.pass.phase == Phase::train ? tokens / leaf : 1;
}

std::vector<Tensor> Router::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor x = std::move(in[0]);
  const auto kind = kind_of(saved);
  const auto samples = x.shape()[0], tokens = x.shape()[1], all = samples * tokens;
  const auto rows = all * config_.of_token;
  const Tensor logits_TE = logits_of(run, x, params_, kind);
  const auto ids = [&](const Shape& s) { return Tensor::empty(b, s, DType::i32, kind); };
  const Tensor weight_TK = Tensor::empty(b, {all, config_.of_token}, logits_TE.dtype(), kind);
  const Tensor choice_RTK = ids({ranks_counted(run) * all, config_.of_token});
  const Tensor choice_TK = choices_of(run, choice_RTK, run.seq.rank());
  b.put(Queue::compute,
        kernel::Route{.weight_TK = weight_TK.view(),
                      .choice_TK = choice_TK.view(),
                      .logits_TE = logits_TE.view(),
                      .bias_E = bias_ == ParamId{} ? ConstView{} : run.weights[bias_],
                      .counted_T = counted_of(run, run.seq.rank()),
                      .scores = config_.scores,
                      .normalize = config_.normalize});
  gather(run, choice_RTK, choice_TK);
  if (run.totals) add_totals(run, logits_TE, choice_TK, count_together(run, choice_RTK, samples));
  ExpertOrder order{
      ids({config_.experts + 1}), ids({rows}), ids({rows}), ids({all, config_.of_token}), {}};
  if (run.expert_group) {
    order.count_LE =
        Tensor::empty(b, {leaves_of(run, all), config_.experts}, DType::i64, MemoryKind::transient);
    b.put(Queue::compute,
          kernel::CountChoices{.count_BE = order.count_LE.view(), .choice_TK = choice_TK.view()});
  }
  b.put(Queue::compute, kernel::SortChoices{.offset_E1 = order.offset_E1.view(),
                                            .token_R = order.token_R.view(),
                                            .choice_R = order.choice_R.view(),
                                            .row_TK = order.row_TK.view(),
                                            .choice_TK = choice_TK.view()});
  if (saved) saved->keep(RouterKept{x, logits_TE, choice_RTK});
  return {weight_TK, order.offset_E1, order.token_R, order.choice_R, order.row_TK, order.count_LE};
}

std::vector<Tensor> Router::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                            Saved& saved,
                                            std::span<const std::uint8_t> wanted) const {
  auto& kept = saved.as<RouterKept>();
  const Tensor &x = kept.x, logits_TE = std::move(kept.logits_TE),
               choice_RTK = std::move(kept.choice_RTK);
  const Tensor count_BE = count_together(run, choice_RTK, x.shape()[0]);
  const Tensor dz = Tensor::empty(run.backend, logits_TE.shape(), x.dtype(), MemoryKind::transient);
  run.backend.put(Queue::compute,
                  kernel::RouteGrad{.dlogits_TE = dz.view(),
                                    .dweight_TK = grad_out[0].view(),
                                    .choice_TK = choices_of(run, choice_RTK, run.seq.rank()).view(),
                                    .logits_TE = logits_TE.view(),
                                    .count_BE = count_BE.view(),
                                    .counted_T = counted_of(run, run.seq.rank()),
                                    .scores = config_.scores,
                                    .normalize = config_.normalize,
                                    .balance_scale = run.pass.balance_scale,
                                    .z_scale = run.pass.z_scale});
  grad_out.clear();
  kept.dlogits_TE = dz;
  if (!wanted[0]) return {Tensor{}};
  return {input_gradient(run, dz, params_[0], x.shape())};
}

void Router::weight_gradients(const Run& run, std::vector<Tensor>, Saved saved) const {
  const auto& kept = saved.as<RouterKept>();
  add_gradient(run, kept.dlogits_TE, kept.x, params_);
}

// Computes the gate as a router with a single expert.
std::vector<Tensor> SigmoidGate::forward(const Run& run, std::vector<Tensor> in,
                                         Saved* saved) const {
  const Tensor x = std::move(in[0]);
  const Tensor z_T1 = logits_of(run, x, params_, kind_of(saved));
  const Tensor weight_T1 = Tensor::empty(run.backend, z_T1.shape(), z_T1.dtype(), kind_of(saved));
  const Tensor choice_T1 = Tensor::empty(run.backend, z_T1.shape(), DType::i32, kind_of(saved));
  run.backend.put(Queue::compute, kernel::Route{.weight_TK = weight_T1.view(),
                                                .choice_TK = choice_T1.view(),
                                                .logits_TE = z_T1.view(),
                                                .scores = RouterScores::sigmoid});
  if (saved) saved->keep(RouterKept{x, z_T1, choice_T1});
  return {weight_T1};
}

std::vector<Tensor> SigmoidGate::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                                 Saved& saved,
                                                 std::span<const std::uint8_t> wanted) const {
  auto& kept = saved.as<RouterKept>();
  const Tensor &x = kept.x, z_T1 = std::move(kept.logits_TE),
               choice_T1 = std::move(kept.choice_RTK);
  const Tensor dz = Tensor::empty(run.backend, z_T1.shape(), x.dtype(), MemoryKind::transient);
  run.backend.put(Queue::compute, kernel::RouteGrad{.dlogits_TE = dz.view(),
                                                    .dweight_TK = grad_out[0].view(),
                                                    .choice_TK = choice_T1.view(),
                                                    .logits_TE = z_T1.view(),
                                                    .scores = RouterScores::sigmoid});
  kept.dlogits_TE = dz;
  if (!wanted[0]) return {Tensor{}};
  return {input_gradient(run, dz, params_[0], x.shape())};
}

void SigmoidGate::weight_gradients(const Run& run, std::vector<Tensor>, Saved saved) const {
  const auto& kept = saved.as<RouterKept>();
  add_gradient(run, kept.dlogits_TE, kept.x, params_);
}

}  // namespace trireme::ops
