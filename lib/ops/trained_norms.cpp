#include "lib/ops/trained_norms.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

TrainedNorms::TrainedNorms(ParamId weight, ParamId bias, const LowRank& low)
    : weight_(weight), bias_(bias), low_(low) {}

ConstView TrainedNorms::trained(const Run& run, const LowRank::Product& p) const {
  return run.weights[low_.norms].slice(0, p.row, p.channels);
}

ConstView TrainedNorms::bias(const Run& run, std::int64_t channel, std::int64_t channels) const {
  return bias_ == ParamId{} ? ConstView{} : run.weights[bias_].slice(0, channel, channels);
}

std::vector<TrainedNorms::Channels> TrainedNorms::others(std::int64_t all) const {
  std::vector<Channels> left;
  std::int64_t end = 0;
  for (const auto& p : low_.products) {
    if (p.channel > end) left.push_back({end, p.channel - end});
    end = p.channel + p.channels;
  }
  if (all > end) left.push_back({end, all - end});
  return left;
}

// Returns the norms of the rows of w + s b a.
Tensor TrainedNorms::row_norms(const Run& run, const LowRank::Product& p, std::size_t i,
                               MemoryKind kind) const {
  const ConstView w_NC = run.weights[weight_].slice(0, p.channel, p.channels),
                  b_NR = run.weights[low_.b].slice(0, p.row, p.channels);
  const ConstView a_RC =
      run.weights[low_.a].slice(0, static_cast<std::int64_t>(i) * low_.rank, low_.rank);
  const auto copy = [&](const ConstView& from) {
    const auto to = Tensor::empty(run.backend, {from.extent[0], from.extent[1]}, from.dtype,
                                  MemoryKind::transient);
    run.backend.put(Queue::compute, kernel::Copy{.dst = to.view(), .src = from});
    return to;
  };
  const Tensor sum_NC = copy(w_NC), scaled_NR = copy(b_NR);
  run.backend.put(Queue::compute, kernel::Scale{.x_N = scaled_NR.view(), .factor = low_.scale});
  run.backend.put(Queue::compute, kernel::Matmul{.c_MN = sum_NC.view(),
                                                 .a_MK = scaled_NR.view(),
                                                 .b_KN = a_RC,
                                                 .how = Accumulate::add,
                                                 .order = sum_order(run)});
  Tensor n_N = Tensor::empty(run.backend, {p.channels}, wide(w_NC.dtype), kind);
  run.backend.put(Queue::compute, kernel::RowNorms{.norm_N = n_N.view(), .x_NC = sum_NC.view()});
  return n_N;
}

void TrainedNorms::apply(const Run& run, const Tensor& z, Kept* kept) const {
  const View z_TN = as_rows(z);
  for (std::size_t i = 0; i < low_.products.size(); ++i) {
    const auto& p = low_.products[i];
    const Tensor n_N = row_norms(run, p, i, kept ? MemoryKind::saved : MemoryKind::transient);
    const View of_product = z_TN.slice(1, p.channel, p.channels);
    if (kept) {
      const auto normal =
          Tensor::empty(run.backend, {z_TN.extent[0], p.channels}, z.dtype(), MemoryKind::saved);
      run.backend.put(
          Queue::compute,
          kernel::ScaleColumns{.y_TN = normal.view(), .x_TN = of_product, .divisor_N = n_N.view()});
      kept->n_N.push_back(n_N);
      kept->normal_TN.push_back(normal);
    }
    run.backend.put(Queue::compute,
                    kernel::ScaleColumns{.y_TN = of_product,
                                         .x_TN = of_product,
                                         .factor_N = trained(run, p),
                                         .divisor_N = n_N.view(),
                                         .bias_N = bias(run, p.channel, p.channels)});
  }
  if (bias_ == ParamId{}) return;
  for (const auto& [begin, count] : others(z_TN.extent[1])) {
    const View left = z_TN.slice(1, begin, count);
    run.backend.put(
        Queue::compute,
        kernel::ScaleColumns{.y_TN = left, .x_TN = left, .bias_N = bias(run, begin, count)});
  }
}

void TrainedNorms::add_bias(const Run& run, const Tensor& y) const {
  if (bias_ == ParamId{}) return;
  run.backend.put(
      Queue::compute,
      kernel::ScaleColumns{.y_TN = as_rows(y), .x_TN = as_rows(y), .bias_N = run.weights[bias_]});
}

Tensor TrainedNorms::input_gradient(const Run& run, const Tensor& dy, const Kept& kept) const {
  Tensor dz = Tensor::empty(run.backend, dy.shape(), dy.dtype(), MemoryKind::transient);
  const View dz_TN = as_rows(dz), dy_TN = as_rows(dy);
  for (std::size_t i = 0; i < low_.products.size(); ++i) {
    const auto& p = low_.products[i];
    run.backend.put(Queue::compute,
                    kernel::ScaleColumns{.y_TN = dz_TN.slice(1, p.channel, p.channels),
                                         .x_TN = dy_TN.slice(1, p.channel, p.channels),
                                         .factor_N = trained(run, p),
                                         .divisor_N = kept.n_N[i].view()});
  }
  for (const auto& [begin, count] : others(dy_TN.extent[1]))
    run.backend.put(Queue::compute, kernel::Copy{.dst = dz_TN.slice(1, begin, count),
                                                 .src = dy_TN.slice(1, begin, count)});
  return dz;
}

// dm is the gradient of the weight of an RMS norm whose normalised rows are z / n.
void TrainedNorms::add_gradient(const Run& run, const View& dm_N, Accumulate how,
                                const ConstView& dy_TN, const Kept& kept, Rows r) const {
  const auto rows = r.end - r.begin;
  const Tensor one_T = Tensor::empty(run.backend, {rows}, wide(dy_TN.dtype), MemoryKind::transient);
  run.backend.put(Queue::compute, kernel::Fill{.dst = one_T.view(), .value = 1});
  for (std::size_t i = 0; i < low_.products.size(); ++i) {
    const auto& p = low_.products[i];
    ConstView dy = rows_of(dy_TN, r);
    Tensor dense_TN;
    if (p.channels < dy.extent[1]) {
      dense_TN = Tensor::empty(run.backend, {rows, p.channels}, dy.dtype, MemoryKind::transient);
      run.backend.put(Queue::compute, kernel::Copy{.dst = dense_TN.view(),
                                                   .src = dy.slice(1, p.channel, p.channels)});
      dy = dense_TN.view();
    }
    run.backend.put(Queue::compute, kernel::NormGrad{.dw_C = dm_N.slice(0, p.row, p.channels),
                                                     .how = how,
                                                     .dy_TC = dy,
                                                     .x_TC = rows_of(kept.normal_TN[i].view(), r),
                                                     .rstd_T = one_T.view()});
  }
}

}  // namespace trireme::ops
