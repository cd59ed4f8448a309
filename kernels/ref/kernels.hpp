#pragma once
// The reference kernels as plain functions: what kernels/backend.hpp says of each, run at once by
// loops that add in double. A row's result depends on that row alone; sums over rows go in row
// order. f32, bf16 and f64.
#include "kernels/backend.hpp"

namespace trireme::ref {

// copy.cpp. Also of ids and sample numbers, between equal types.
void copy(View dst, ConstView src, Accumulate);
void fill(View, double);

// matmul.cpp
void matmul(View c_MN, ConstView a_MK, ConstView b_KN, Accumulate, const Epilogue&);

// attention.cpp
std::size_t attention_workspace(const AttentionShape&, Direction);
void attention(View o, View lse, ConstView q, ConstView k, ConstView v, const AttentionShape&,
               View workspace);
void attention_grad(View dq, View dk, View dv, ConstView d_o, ConstView o, ConstView lse,
                    ConstView q, ConstView k, ConstView v, const AttentionShape&, View workspace);

// norm.cpp
void layer_norm(View y, View mean, View rstd, ConstView x, ConstView w, ConstView b, double eps);
void layer_norm_grad(View dx, View dw, View db, Accumulate, ConstView dy, ConstView x, ConstView w,
                     ConstView mean, ConstView rstd);
void rms_norm(View y, View rstd, ConstView x, ConstView w, double eps);
void rms_norm_grad(View dx, View dw, Accumulate, ConstView dy, ConstView x, ConstView w,
                   ConstView rstd);

// pointwise.cpp
void rotary(View x_BTHD, ConstView table_T2E, Direction);
void gelu(View y, ConstView x);
void gelu_grad(View dx, ConstView dy, ConstView x);
void swiglu(View y, ConstView gate_up);
void swiglu_grad(View dgate_up, ConstView dy, ConstView gate_up);
void dropout(View y, ConstView x, ConstView skip, const DropoutKey&, const SampleRows&);

// embedding.cpp
void embedding(View y, ConstView ids, ConstView table);
void embedding_grad(View dtable, Accumulate, ConstView dy, ConstView ids);

// loss.cpp
void cross_entropy(View loss, Accumulate, View logits, ConstView target, double scale, Logits);

// reduce.cpp
void column_sum(View out, Accumulate, ConstView x);
void sum_squares(View out, ConstView x);

// optimizer.cpp
void sgd(View master, View copy, ConstView grad, const Sgd&);
void adamw(View master, View m, View v, View copy, ConstView grad, const AdamW&);

}  // namespace trireme::ref
