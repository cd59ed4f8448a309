#include "lib/ops/linear.hpp"

#include "lib/ops/fp8.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

Linear::Linear(ParamId weight, ParamId bias, std::int64_t outputs, ProductType type)
    : params_{weight}, outputs_(outputs), type_(type) {
  if (bias != ParamId{}) params_.push_back(bias);
}

bool Linear::in_fp8(const Run& run) const {
  return type_ == ProductType::fp8 && run.pass.phase == Phase::train;
}

Shape Linear::output_shape(const Shape& s) const {
  return s.dims() == 3 ? Shape{s[0], s[1], outputs_} : Shape{s.count() / s[s.dims() - 1], outputs_};
}

void Linear::multiply(const Run& run, const Tensor& y, const Tensor& x, Epilogue epilogue) const {
  if (params_.size() > 1) epilogue.bias_N = run.weights[params_[1]];
  const ConstView w_NC = run.weights[params_[0]];
  if (in_fp8(run)) return multiply_in_fp8(run, as_rows(y), as_rows(x), w_NC, epilogue);
  multiply_rows(
      run,
      {.c_MN = as_rows(y), .a_MK = as_rows(x), .b_KN = w_NC.transposed(), .epilogue = epilogue});
}

void Linear::multiply_grad(const Run& run, const Tensor& dx, const Tensor& dy,
                           const Epilogue& epilogue) const {
  const ConstView w_NC = run.weights[params_[0]];
  if (in_fp8(run))
    return multiply_in_fp8(run, as_rows(dx), as_rows(dy), w_NC.transposed(), epilogue);
  multiply_rows(run,
                {.c_MN = as_rows(dx), .a_MK = as_rows(dy), .b_KN = w_NC, .epilogue = epilogue});
}

void Linear::add_gradients(const Run& run, const Tensor& dy, const Tensor& x) const {
  if (!wants_any(run, params_)) return;
  const ConstView dy_TN = as_rows(dy), x_TC = as_rows(x);
  run.gradients->add(
      params_, dy_TN.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
        const auto dy_RN = rows_of(dy_TN, r);
        const View db = dst.size() > 1 ? dst[1] : View{};
        if (dst[0] && in_fp8(run)) multiply_grad_in_fp8(run, dst[0], how, dy_RN, rows_of(x_TC, r));
        if (dst[0] && !in_fp8(run)) {
          run.backend.put(Queue::compute, kernel::Matmul{.c_MN = dst[0],
                                                         .a_MK = dy_RN.transposed(),
                                                         .b_KN = rows_of(x_TC, r),
                                                         .how = how,
                                                         .epilogue = {.row_sum_M = db},
                                                         .order = sum_order(run)});
        } else if (db) {
          run.backend.put(Queue::compute,
                          kernel::ColumnSum{.out_C = db, .how = how, .x_TC = dy_RN});
        }
      });
}

std::vector<Tensor> Linear::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const Tensor& x = in[0];
  const Tensor y = Tensor::empty(run.backend, output_shape(x.shape()), x.dtype(), kind_of(saved));
  multiply(run, y, x);
  if (saved) saved->keep(x);
  return {y};
}

std::vector<Tensor> Linear::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                            Saved& saved,
                                            std::span<const std::uint8_t> wanted) const {
  if (!wanted[0]) return {Tensor{}};
  const auto& x = saved.as<Tensor>();
  Tensor dx = Tensor::empty(run.backend, x.shape(), x.dtype(), MemoryKind::transient);
  multiply_grad(run, dx, grad_out[0]);
  return {dx};
}

void Linear::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  add_gradients(run, grad_out[0], saved.as<Tensor>());
}

}  // namespace trireme::ops
