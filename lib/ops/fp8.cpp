#include "lib/ops/fp8.hpp"

#include <algorithm>

#include "lib/ops/support.hpp"

namespace trireme::ops {

Fp8Tensor round_to_fp8(const Run& run, const ConstView& x_RK, fp8::Scales scales) {
  const auto rows = x_RK.extent[0], columns = x_RK.extent[1];
  const auto room = [&](const Shape& s, DType t) {
    return Tensor::empty(run.backend, s, t, MemoryKind::transient);
  };
  Fp8Tensor y{room(fp8::code_shape(rows, columns), DType::i32),
              room(fp8::scale_shape(scales, rows, columns), DType::f32), scales};
  run.backend.put(Queue::compute, kernel::RoundToFp8{
                                      .y = {y.code_RW.view(), y.scale.view(), scales},
                                      .x_RK = x_RK,
                                  });
  return y;
}

void multiply_in_fp8(const Run& run, const View& c_MN, const ConstView& a_MK, const Fp8Tensor& w,
                     const ConstView& bias_N) {
  const auto a = round_to_fp8(run, a_MK, fp8::Scales::rows);
  const auto rows = c_MN.extent[0], chunk = run.pass.exact_chunk > 0 ? run.pass.exact_chunk : rows;
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const Rows r{begin, std::min(rows, begin + chunk)};
    run.backend.put(Queue::compute,
                    kernel::Fp8Matmul{.c_MN = rows_of(c_MN, r),
                                      .a_MK = a.view().row_range(r.begin, r.end - r.begin),
                                      .b_NK = w.view(),
                                      .bias_N = bias_N,
                                      .order = sum_order(run)});
  }
}

void multiply_in_fp8(const Run& run, const View& c_MN, const ConstView& a_MK, const ConstView& w_NK,
                     const Epilogue& epilogue) {
  expect(!epilogue.row_sum_M, "row sums are part of weight gradients");
  multiply_in_fp8(run, c_MN, a_MK, round_to_fp8(run, w_NK, fp8::Scales::tiles), epilogue.bias_N);
  if (epilogue.activated_MN)
    run.backend.put(Queue::compute, kernel::Activate{.activation = epilogue.activation,
                                                     .y_N = epilogue.activated_MN,
                                                     .x_N = c_MN});
  if (epilogue.activated_at_MN)
    run.backend.put(Queue::compute, kernel::ActivateGrad{.activation = epilogue.activation,
                                                         .dx_N = c_MN,
                                                         .dy_N = c_MN,
                                                         .x_N = epilogue.activated_at_MN});
}

void multiply_grad_in_fp8(const Run& run, const View& dw_NK, Accumulate how, const ConstView& dy_RN,
                          const ConstView& x_RK) {
  const auto dy = round_to_fp8(run, dy_RN.transposed(), fp8::Scales::rows),
             x = round_to_fp8(run, x_RK.transposed(), fp8::Scales::rows);
  run.backend.put(
      Queue::compute,
      kernel::Fp8Matmul{
          .c_MN = dw_NK, .a_MK = dy.view(), .b_NK = x.view(), .how = how, .order = sum_order(run)});
}

}  // namespace trireme::ops
