#include "kernels/backend.hpp"

namespace trireme {

std::string_view name_of(Queue q) {
  constexpr std::string_view names[] = {"compute", "gather", "scatter", "exchange",
                                        "down",    "up",     "host"};
  return names[static_cast<int>(q)];
}

std::string_view name_of(Kind k) {
  constexpr std::string_view names[] = {"weights",  "optimizer", "gradients", "gathered",
                                        "saved",    "transient", "boundary",  "staging",
                                        "snapshot", "workspace"};
  return names[static_cast<int>(k)];
}

template <class Byte>
static BasicView<Byte> as_rows(const BasicView<Byte>& v_BTC) {
  return v_BTC.reshaped({v_BTC.extent[0] * v_BTC.extent[1], v_BTC.extent[2]});
}

void Backend::residual_norm(Queue q, View sum_BTC, View y_BTC, View mean_T, View rstd_T,
                            ConstView x_BTC, ConstView skip_BTC, ConstView w_C, ConstView b_C,
                            double eps, const DropoutKey& key, const SampleRows& rows) {
  dropout(q, sum_BTC, x_BTC, skip_BTC, key, rows);
  const ConstView sum_TC = as_rows(sum_BTC);
  if (mean_T)
    layer_norm(q, as_rows(y_BTC), mean_T, rstd_T, sum_TC, w_C, b_C, eps);
  else
    rms_norm(q, as_rows(y_BTC), rstd_T, sum_TC, w_C, eps);
}

void Backend::residual_norm_grad(Queue q, View dx_TC, View dw_C, View db_C, Accumulate how,
                                 ConstView dsum_TC, ConstView dy_TC, ConstView sum_TC,
                                 ConstView w_C, ConstView mean_T, ConstView rstd_T) {
  if (mean_T)
    layer_norm_grad(q, dx_TC, dw_C, db_C, how, dy_TC, sum_TC, w_C, mean_T, rstd_T);
  else
    rms_norm_grad(q, dx_TC, dw_C, how, dy_TC, sum_TC, w_C, rstd_T);
  if (dx_TC && dsum_TC) copy(q, dx_TC, dsum_TC, Accumulate::add);
}

}  // namespace trireme
