// Activations and rotary position embeddings. T rows, F hidden width, B samples, H heads, D head
// dim.
#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/math/activations.hpp"
#include "kernels/math/rotary.hpp"
#include "kernels/math/swiglu.hpp"

namespace trireme::host {

namespace {

template <class T, class Formula>
void activate(const View& y, const ConstView& x, Formula) {
  const auto body = [](T* to, const T* from) {
#pragma omp simd
    for (int l = 0; l < block_size; ++l) put(to[l], Formula::value(static_cast<float>(from[l])));
  };
  map_blocks(x.count(), body, data<T>(y), data<T>(x));
}

template <class T, class Formula>
void activate_grad(const View& dx, const ConstView& dy, const ConstView& x, Formula) {
  const auto body = [](T* to, const T* above, const T* from) {
#pragma omp simd
    for (int l = 0; l < block_size; ++l)
      put(to[l], static_cast<float>(above[l]) * Formula::slope(static_cast<float>(from[l])));
  };
  map_blocks(x.count(), body, data<T>(dx), data<T>(dy), data<T>(x));
}

template <class T, class Gate>
void gated(const kernel::Swiglu& o, Gate) {
  const auto width = o.y_TF.extent[1];
  for_rows(o.y_TF.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = begin; t < end; ++t) {
      const float weight = o.weight_T ? data<float>(o.weight_T)[t] : 1.0F;
      const auto body = [weight](T* to, const T* gate, const T* up) {
#pragma omp simd
        for (int l = 0; l < block_size; ++l) {
          put(to[l], Gate::value(static_cast<float>(gate[l]), static_cast<float>(up[l])) * weight);
        }
      };
      const T* gate = data<T>(o.gate_up_T2F) + t * 2 * width;
      for_blocks(width, body, data<T>(o.y_TF) + t * width, gate, gate + width);
    }
  });
}

template <class T, class Gate>
void gated_grad(const kernel::SwigluGrad& o, Gate) {
  const auto width = o.dy_TF.extent[1];
  for_rows(o.dy_TF.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = begin; t < end; ++t) {
      T* dgate = data<T>(o.dgate_up_T2F) + t * 2 * width;
      const T *dy = data<T>(o.dy_TF) + t * width, *gate = data<T>(o.gate_up_T2F) + t * 2 * width;
      if (o.dweight_T) {
        Lanes<float> sums(0);  // the padding of a row's last block adds zeros
        const auto add = [&sums](const T* above, const T* g, const T* up) {
#pragma omp simd
          for (int l = 0; l < block_size; ++l) {
            sums[l] += static_cast<float>(above[l]) *
                       Gate::value(static_cast<float>(g[l]), static_cast<float>(up[l]));
          }
        };
        for_blocks(width, add, dy, gate, gate + width);
        data<float>(o.dweight_T)[t] = sums.sum();
      }
      const float weight = o.weight_T ? data<float>(o.weight_T)[t] : 1.0F;
      const auto body = [weight](T* to_gate, T* to_up, const T* above, const T* g, const T* up) {
#pragma omp simd
        for (int l = 0; l < block_size; ++l) {
          const auto d = Gate::gradient(static_cast<float>(above[l]) * weight,
                                        static_cast<float>(g[l]), static_cast<float>(up[l]));
          put(to_gate[l], d.gate);
          put(to_up[l], d.up);
        }
      };
      for_blocks(width, body, dgate, dgate + width, dy, gate, gate + width);
    }
  });
}

}  // namespace

void run(const kernel::Activate& o, View) {
  math::with_formula(o.activation, [&](auto formula) {
    by_type(o.x_N.dtype, "activate", [&]<class T>(T) { activate<T>(o.y_N, o.x_N, formula); });
  });
}

void run(const kernel::ActivateGrad& o, View) {
  math::with_formula(o.activation, [&](auto formula) {
    by_type(o.x_N.dtype, "activate_grad",
            [&]<class T>(T) { activate_grad<T>(o.dx_N, o.dy_N, o.x_N, formula); });
  });
}

void run(const kernel::Scale& o, View) {
  const auto factor = static_cast<float>(o.factor);
  by_type(o.x_N.dtype, "scale", [&]<class T>(T) {
    const auto body = [factor](T* x) {
#pragma omp simd
      for (int l = 0; l < block_size; ++l) put(x[l], factor * static_cast<float>(x[l]));
    };
    map_blocks(o.x_N.count(), body, data<T>(o.x_N));
  });
}

void run(const kernel::Swiglu& o, View) {
  math::with_gate(o.gate, [&](auto gate) {
    by_type(o.y_TF.dtype, "swiglu", [&]<class T>(T) { gated<T>(o, gate); });
  });
}

void run(const kernel::SwigluGrad& o, View) {
  math::with_gate(o.gate, [&](auto gate) {
    by_type(o.dy_TF.dtype, "swiglu_grad", [&]<class T>(T) { gated_grad<T>(o, gate); });
  });
}

void run(const kernel::Rotary& o, View) {
  const auto& [x_BTHD, table_T2E, direction, position_BT] = o;
  const auto tokens = x_BTHD.extent[1], heads = x_BTHD.extent[2], half = x_BTHD.extent[3] / 2;
  const float sign = direction == Direction::forward ? 1.0F : -1.0F;
  const auto& stride = x_BTHD.stride;
  expect(x_BTHD.extent[3] == 1 || stride[3] == 1, "rotary: heads are dense");
  expect(!position_BT || (position_BT.dtype == DType::i32 && position_BT.stride[1] == 1),
         "rotary: positions are dense i32");
  by_type(x_BTHD.dtype, "rotary", [&]<class T>(T) {
    for_rows(x_BTHD.extent[0] * tokens, heads * half, [&](std::int64_t begin, std::int64_t end) {
      for (auto row = begin; row < end; ++row) {
        const auto b = row / tokens, t = row % tokens;
        const auto at =
            position_BT ? data<std::int32_t>(position_BT)[b * position_BT.stride[0] + t] : t;
        const float* c = data<float>(table_T2E) + at * 2 * half;
        const float* s = c + half;
        for (std::int64_t h = 0; h < heads; ++h) {
          T* x1 = data<T>(x_BTHD) + b * stride[0] + t * stride[1] + h * stride[2];
          T* x2 = x1 + half;
#pragma omp simd
          for (std::int64_t e = 0; e < half; ++e) {
            const auto turned = math::turn({static_cast<float>(x1[e]), static_cast<float>(x2[e])},
                                           c[e], sign * s[e]);
            put(x1[e], turned.x1);
            put(x2[e], turned.x2);
          }
        }
      }
    });
  });
}

}  // namespace trireme::host
