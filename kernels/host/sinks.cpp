// Gradient of attention sinks. A head's terms are summed over samples and tokens in order, in
// double. A unit of work is one head.
#include <cmath>

#include "kernels/host/attention_tile.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

template <class T>
void backward(const kernel::SinkGrad& g) {
  const auto& lse = g.lse_BHT;
  const auto B = lse.extent[0], H = lse.extent[1], tokens = lse.extent[2], D = g.o_BTHD.extent[3];
  const auto* const sinks = reinterpret_cast<const T*>(g.sink_H.data);
  auto* const dsinks = reinterpret_cast<float*>(g.dsink_H.data);
  for_chunks(H, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto h = begin; h < end; ++h) {
      const auto sink = static_cast<float>(sinks[h * g.sink_H.stride[0]]);
      double sum = 0;
      for (std::int64_t b = 0; b < B; ++b)
        for (std::int64_t t = 0; t < tokens; ++t) {
          const T *const d_o = rows_of<T>(g.do_BTHD, b, t, h), *const o =
                                                                   rows_of<T>(g.o_BTHD, b, t, h);
          const auto* const log = reinterpret_cast<const float*>(lse.data) + b * lse.stride[0] +
                                  h * lse.stride[1] + t * lse.stride[2];
          float delta = 0;
#pragma omp simd reduction(+ : delta)
          for (std::int64_t d = 0; d < D; ++d)
            delta += static_cast<float>(d_o[d]) * static_cast<float>(o[d]);
          sum -= std::exp(static_cast<double>(sink - *log)) * delta;
        }
      float& to = dsinks[h * g.dsink_H.stride[0]];
      to = static_cast<float>(g.how == Accumulate::add ? to + sum : sum);
    }
  });
}

}  // namespace

void run(const kernel::SinkGrad& o, View) {
  if (o.o_BTHD.dtype == DType::bf16)
    backward<bf16>(o);
  else if (o.o_BTHD.dtype == DType::f32)
    backward<float>(o);
  else
    fail("sink_grad: {} is not computed on this backend; use f32 or bf16, or the ref backend",
         name_of(o.o_BTHD.dtype));
}

}  // namespace trireme::host
