#include "lib/ops/head.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "lib/ops/support.hpp"

namespace trireme::ops {

static Tensor logits_of(const Run& run, ConstView x_RC, ConstView w_VC) {
  Tensor z = Tensor::empty(run.backend, {x_RC.extent[0], w_VC.extent[0]}, x_RC.dtype,
                           MemoryKind::transient);
  multiply_rows(run, {.c_MN = z.view(), .a_MK = x_RC, .b_KN = w_VC.transposed()});
  return z;
}

Tensor Head::logits(const Run& run, ConstView x_RC) const {
  return logits_of(run, x_RC, run.weights[params_[0]]);
}

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
    some.scale = scale;
    b.put(Queue::compute, some);
  }
}

std::vector<Tensor> Head::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor x = std::move(in[0]);
  const ConstView x_TC = as_rows(x);
  const auto tokens = x_TC.extent[0];
  const ConstView target_T = run.pass.targets_BT.reshaped({tokens});
  const bool exact = run.pass.exact_chunk > 0;
  expect(!exact || run.pass.losses.empty(), "losses that are counted have one sum");
  Tensor loss = Tensor::empty(b, {exact ? 2 : run.pass.loss_sums}, exact ? DType::i64 : DType::f64,
                              MemoryKind::transient);
  if (!run.pass.losses.empty()) b.put(Queue::compute, kernel::Fill{.dst = loss.view(), .value = 0});
  View largest;
  if (exact) {
    b.put(Queue::compute, kernel::Fill{.dst = loss.view(), .value = 0});
    largest = View(loss.slice(1, {1}).view().data, DType::f32, {1});
  }
  Tensor dx;
  if (saved) dx = Tensor::empty(b, x.shape(), x.dtype(), MemoryKind::saved);
  const auto most = rows_at_once(run);
  const auto& taught = run.pass.teacher;
  expect(!taught.x_BTC || (!exact && run.pass.losses.empty()), "a teacher is of a mean loss");
  for (std::int64_t begin = 0; begin < tokens; begin += most) {
    const Rows chunk{begin, std::min(tokens, begin + most)};
    const ConstView x_RC = rows_of(x_TC, chunk);
    const Tensor z = logits(run, x_RC);
    Teacher teacher{{}, taught.softcap, taught.temperature, taught.share};
    Tensor of_teacher;
    if (taught.x_BTC) {
      const auto theirs_TC = taught.x_BTC.reshaped({tokens, taught.x_BTC.extent[2]});
      of_teacher = logits_of(run, rows_of(theirs_TC, chunk), taught.w_VC);
      teacher.logits_TV = of_teacher.view();
    }
    add_losses(run,
               {.loss = loss.slice(0, {1}).view(),
                .how = begin ? Accumulate::add : Accumulate::overwrite,
                .logits_TV = z.view(),
                .target_T = rows_of(target_T, chunk),
                .scale = run.pass.scale,
                .logits = saved ? Logits::become_gradient : Logits::keep,
                .largest = largest,
                .softcap = softcap_,
                .teacher = teacher},
               loss, chunk);
    if (!saved) continue;
    const ConstView dz_RV = z.view();
    multiply_rows(
        run, {.c_MN = rows_of(as_rows(dx), chunk), .a_MK = dz_RV, .b_KN = run.weights[params_[0]]});
    if (wants_any(run, params_))
      run.gradients->add(
          params_, dz_RV.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
            b.put(Queue::compute, kernel::Matmul{.c_MN = dst[0],
                                                 .a_MK = rows_of(dz_RV, r).transposed(),
                                                 .b_KN = rows_of(x_RC, r),
                                                 .how = how,
                                                 .order = sum_order(run)});
          });
  }
  if (saved) saved->keep(dx);
  return {loss};
}

Head::Loss Head::download(Backend& b, const Tensor& t) {
  Loss loss;
  if (t.dtype() == DType::f64) {
    b.download(Queue::compute, std::as_writable_bytes(std::span(&loss.sum, 1)), t.view());
    return loss;
  }
  std::array<std::int64_t, 2> both{};
  b.download(Queue::compute, std::as_writable_bytes(std::span(both)), t.view());
  loss.quanta = both[0];
  loss.largest = std::bit_cast<float>(static_cast<std::uint32_t>(both[1]));
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
