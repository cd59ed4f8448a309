#include "lib/ops/head.hpp"

#include <algorithm>
#include <bit>

#include "lib/ops/support.hpp"

namespace trireme::ops {

Head::Head(ParamId weight, std::int64_t vocab, double softcap, std::optional<LowRank> low,
           ProductType type)
    : params_{weight}, vocab_(vocab), softcap_(softcap), low_(std::move(low)), type_(type) {
  if (low_) params_.insert(params_.end(), {low_->a, low_->b});
}

static Tensor logits_of(const Run& run, ConstView x_RC, ConstView w_VC) {
  Tensor z = Tensor::empty(run.backend, {x_RC.extent[0], w_VC.extent[0]}, x_RC.dtype,
                           MemoryKind::transient);
  multiply_rows(run, {.c_MN = z.view(), .a_MK = x_RC, .b_KN = w_VC.transposed()});
  return z;
}

Tensor Head::scaled_product(const Run& run, const ConstView& rows, const ConstView& matrix) const {
  Tensor t =
      Tensor::empty(run.backend, {rows.extent[0], low_->rank}, rows.dtype, MemoryKind::transient);
  multiply_rows(run, {.c_MN = t.view(), .a_MK = rows, .b_KN = matrix});
  apply_scale(run, *low_, t.view());
  return t;
}

void Head::add_adapter(const Run& run, const Tensor& z, const Tensor& t) const {
  if (t)
    multiply_rows(run, {.c_MN = z.view(),
                        .a_MK = t.view(),
                        .b_KN = run.weights[low_->b].transposed(),
                        .how = Accumulate::add});
}

Tensor Head::logits(const Run& run, ConstView x_RC) const {
  const Tensor z = logits_of(run, x_RC, run.weights[params_[0]]);
  if (adapts(run))
    add_adapter(run, z, scaled_product(run, x_RC, run.weights[low_->a].transposed()));
  return z;
}

namespace {

// The products of the head with its weight, for chunks of rows.
class Products {
 public:
  // With fp8, rounds the weight for logits and, if `gradients`, for input gradients.
  Products(const Run& run, ConstView w_VC, bool fp8, bool gradients) : run_(run), w_VC_(w_VC) {
    if (fp8) for_logits_ = round_to_fp8(run, w_VC, fp8::Scales::tiles);
    if (fp8 && gradients) for_gradients_ = round_to_fp8(run, w_VC.transposed(), fp8::Scales::tiles);
  }

  Tensor logits(const ConstView& x_RC) const {
    if (!for_logits_) return logits_of(run_, x_RC, w_VC_);
    Tensor z = Tensor::empty(run_.backend, {x_RC.extent[0], w_VC_.extent[0]}, x_RC.dtype,
                             MemoryKind::transient);
    multiply_in_fp8(run_, z.view(), x_RC, *for_logits_);
    return z;
  }
  void input_gradient(const View& dx_RC, const ConstView& dz_RV) const {
    if (for_gradients_) return multiply_in_fp8(run_, dx_RC, dz_RV, *for_gradients_);
    multiply_rows(run_, {.c_MN = dx_RC, .a_MK = dz_RV, .b_KN = w_VC_});
  }
  void weight_gradient(const View& dw_VC, Accumulate how, const ConstView& dz_RV,
                       const ConstView& x_RC) const {
    if (for_logits_) return multiply_grad_in_fp8(run_, dw_VC, how, dz_RV, x_RC);
    run_.backend.put(Queue::compute, kernel::Matmul{.c_MN = dw_VC,
                                                    .a_MK = dz_RV.transposed(),
                                                    .b_KN = x_RC,
                                                    .how = how,
                                                    .order = sum_order(run_)});
  }

 private:
  const Run& run_;
  ConstView w_VC_;
  std::optional<Fp8Tensor> for_logits_, for_gradients_;
};

}  // namespace

// Returns the number of rows whose logits are computed at a time. With exact sums, it is a multiple
// of the exact chunk.
static std::int64_t rows_at_once(const Run& run) {
  const auto most = run.backend.head_rows(), chunk = run.pass.exact_chunk;
  return chunk == 0 ? most : std::max(chunk, most / chunk * chunk);
}

// Adds the losses of a chunk of rows to the loss sums that the rows belong to, and computes the
// gradients of the logits. If PassContext::losses is empty, there is one sum and `whole` is
// executed as given.
static void add_losses(const Run& run, kernel::CrossEntropy whole, const Tensor& loss, Rows chunk) {
  auto& b = run.backend;
  if (run.pass.losses.empty()) return b.put(Queue::compute, whole);
  for (const auto& [rows, sum, scale] : run.pass.losses) {
    const Rows both{std::max(rows.begin, chunk.begin), std::min(rows.end, chunk.end)};
    if (both.begin >= both.end) continue;
    const Rows here{both.begin - chunk.begin, both.end - chunk.begin};
    auto some = whole;
    some.loss = loss.slice(sum, {1}).view();
    some.how = Accumulate::add;
    some.logits_TV = rows_of(whole.logits_TV, here);
    some.target_T = rows_of(whole.target_T, here);
    if (some.teacher.logits_TV) some.teacher.logits_TV = rows_of(some.teacher.logits_TV, here);
    some.scale = scale;
    b.put(Queue::compute, some);
  }
}

// Returns the teacher's logits of a chunk of rows. Absent if there is no teacher.
static Tensor logits_of_teacher(const Run& run, std::int64_t tokens, Rows chunk) {
  const auto& taught = run.pass.teacher;
  if (!taught.x_BTC) return {};
  const auto theirs_TC = taught.x_BTC.reshaped({tokens, taught.x_BTC.extent[2]});
  return logits_of(run, rows_of(theirs_TC, chunk), taught.w_VC);
}

namespace {

// The operands of the products in a chunk of rows. Without an adapter, low_RC, t and u are absent.
// Tensors are freed in reverse order.
struct HeadChunk {
  ConstView x_RC, low_RC{};  // low_RC is drop(x)
  Tensor t{}, z{};           // z becomes dz
  Tensor of_teacher{};       // the teacher's logits
  Tensor u{};
};

}  // namespace

// Adds the gradients of the weight and of the adapter's matrices, in the order of `params`.
static void add_weight_gradients(const Run& run, std::span<const ParamId> params,
                                 const Products& products, const HeadChunk& chunk) {
  const ConstView dz_RV = chunk.z.view();
  run.gradients->add(
      params, dz_RV.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
        if (dst[0])
          products.weight_gradient(dst[0], how, rows_of(dz_RV, r), rows_of(chunk.x_RC, r));
        const auto product = [&](const View& c, const ConstView& left, const ConstView& right) {
          if (!c) return;
          run.backend.put(Queue::compute, kernel::Matmul{.c_MN = c,
                                                         .a_MK = rows_of(left, r).transposed(),
                                                         .b_KN = rows_of(right, r),
                                                         .how = how,
                                                         .order = sum_order(run)});
        };
        if (!chunk.u) return;
        product(dst[1], chunk.u.view(), chunk.low_RC);
        product(dst[2], dz_RV, chunk.t.view());
      });
}

std::vector<Tensor> Head::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor x = std::move(in[0]);
  const ConstView x_TC = as_rows(x);
  const auto tokens = x_TC.extent[0];
  const ConstView target_T = run.pass.targets_BT.reshaped({tokens});
  const bool exact = run.pass.exact_chunk > 0;
  const auto sums = run.pass.loss_sums;
  Tensor loss = Tensor::empty(b, {exact ? sums + 1 : sums}, exact ? DType::i64 : DType::f64,
                              MemoryKind::transient);
  if (exact || !run.pass.losses.empty())
    b.put(Queue::compute, kernel::Fill{.dst = loss.view(), .value = 0});
  View largest;
  if (exact) largest = View(loss.slice(sums, {1}).view().data, DType::f32, {1});
  const bool adapts_here = adapts(run);
  expect(!low_ || adapts_here || !saved, "a pass without adapters has no backward pass");
  const Tensor x_low = adapts_here ? dropped(run, *low_, x) : Tensor{};
  const bool drops = adapts_here && low_->dropout.key(run.pass).p > 0;
  Tensor dx, dx_low;  // dx_low is the gradient of drop(x)
  if (saved) {
    dx = Tensor::empty(b, x.shape(), x.dtype(), drops ? MemoryKind::transient : MemoryKind::saved);
    dx_low = drops ? Tensor::empty(b, x.shape(), x.dtype(), MemoryKind::saved) : dx;
  }
  const bool in_fp8 = type_ == ProductType::fp8 && run.pass.phase == Phase::train;
  const Products products(run, run.weights[params_[0]], in_fp8, saved != nullptr);
  const auto most = rows_at_once(run);
  const auto& taught = run.pass.teacher;
  expect(!taught.x_BTC || !exact, "losses from a teacher are not counted");
  for (std::int64_t begin = 0; begin < tokens; begin += most) {
    const Rows rows{begin, std::min(tokens, begin + most)};
    HeadChunk chunk{.x_RC = rows_of(x_TC, rows)};
    if (adapts_here) {
      chunk.low_RC = rows_of(as_rows(x_low), rows);
      chunk.t = scaled_product(run, chunk.low_RC, run.weights[low_->a].transposed());
    }
    chunk.z = products.logits(chunk.x_RC);
    add_adapter(run, chunk.z, chunk.t);
    Teacher teacher{{}, taught.softcap, taught.temperature, taught.share};
    chunk.of_teacher = logits_of_teacher(run, tokens, rows);
    if (chunk.of_teacher) teacher.logits_TV = chunk.of_teacher.view();
    add_losses(run,
               {.loss = loss.slice(0, {1}).view(),
                .how = begin ? Accumulate::add : Accumulate::overwrite,
                .logits_TV = chunk.z.view(),
                .target_T = rows_of(target_T, rows),
                .scale = run.pass.scale,
                .logits = saved ? Logits::become_gradient : Logits::keep,
                .largest = largest,
                .softcap = softcap_,
                .teacher = teacher},
               loss, rows);
    if (!saved) continue;
    const ConstView dz_RV = chunk.z.view();
    products.input_gradient(rows_of(as_rows(dx), rows), dz_RV);
    if (adapts_here) {
      chunk.u = scaled_product(run, dz_RV, run.weights[low_->b]);
      multiply_rows(run, {.c_MN = rows_of(as_rows(dx_low), rows),
                          .a_MK = chunk.u.view(),
                          .b_KN = run.weights[low_->a],
                          .how = drops ? Accumulate::overwrite : Accumulate::add});
    }
    if (wants_any(run, params_)) add_weight_gradients(run, params_, products, chunk);
  }
  if (saved)
    saved->keep(drops ? drop(run, low_->dropout, std::move(dx_low), dx.view(), MemoryKind::saved)
                      : dx);
  return {loss};
}

Head::Loss Head::download(Backend& b, const Tensor& t) {
  Loss loss;
  if (t.dtype() == DType::f64) {
    b.download(Queue::compute, std::as_writable_bytes(std::span(&loss.sum, 1)), t.view());
    return loss;
  }
  const auto one = download_quanta(b, t);
  loss.quanta = one.sums[0];
  loss.largest = one.largest;
  return loss;
}

Head::Quanta Head::download_quanta(Backend& b, const Tensor& t) {
  Quanta loss{std::vector<std::int64_t>(static_cast<std::size_t>(t.shape()[0]))};
  b.download(Queue::compute, std::as_writable_bytes(std::span(loss.sums)), t.view());
  loss.largest = std::bit_cast<float>(static_cast<std::uint32_t>(loss.sums.back()));
  loss.sums.pop_back();
  return loss;
}

std::vector<double> Head::download_sums(Backend& b, const Tensor& t) {
  std::vector<double> sums(static_cast<std::size_t>(t.shape()[0]));
  b.download(Queue::compute, std::as_writable_bytes(std::span(sums)), t.view());
  return sums;
}

std::vector<Tensor> Head::input_gradients(const Run&, std::vector<Tensor>&, Saved& saved,
                                          std::span<const std::uint8_t>) const {
  return {std::move(saved.as<Tensor>())};
}

}  // namespace trireme::ops
