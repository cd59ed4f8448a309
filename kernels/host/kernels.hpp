#pragma once
// The host kernels as plain functions: what kernels/backend.hpp says of each, run at once. Scratch
// is the lent workspace (16 MiB); a kernel that needs more splits its work. f32 and bf16.
#include "kernels/backend.hpp"

namespace trireme::host {

// matmul.cpp, through oneDNN
bool bf16_products();  // can oneDNN multiply bf16 on this processor?
void matmul(View c_MN, ConstView a_MK, ConstView b_KN, Accumulate, const Epilogue&, View scratch);

// attention.cpp, attention_grad.cpp. Workspace, in floats for each thread at work (E: head dim in
// whole vectors): forward 192 E + 4,288; backward 448 E + 8,320 and 2 E T for sums, or 128 E where
// those would pass 8 MiB or leave threads idle. Bits depend on the sample and head alone.
std::size_t attention_workspace(const AttentionShape&, DType, Direction);
void attention(View o, View lse, ConstView q, ConstView k, ConstView v, const AttentionShape&,
               View workspace);
void attention_grad(View dq, View dk, View dv, ConstView d_o, ConstView o, ConstView lse,
                    ConstView q, ConstView k, ConstView v, const AttentionShape&, View workspace);

// copy.cpp
void copy(View dst, ConstView src, Accumulate);
void fill(View, double);

// norm.cpp
void layer_norm(View y, View mean, View rstd, ConstView x, ConstView w, ConstView b, double eps);
void layer_norm_grad(View dx, View dw, View db, Accumulate, ConstView dy, ConstView x, ConstView w,
                     ConstView mean, ConstView rstd, View scratch);
void rms_norm(View y, View rstd, ConstView x, ConstView w, double eps);
void rms_norm_grad(View dx, View dw, Accumulate, ConstView dy, ConstView x, ConstView w,
                   ConstView rstd, View scratch);

// pointwise.cpp
void rotary(View x_BTHD, ConstView table_T2E, Direction);
void gelu(View y, ConstView x);
void gelu_grad(View dx, ConstView dy, ConstView x);
void swiglu(View y, ConstView gate_up);
void swiglu_grad(View dgate_up, ConstView dy, ConstView gate_up);
void dropout(View y, ConstView x, ConstView skip, const DropoutKey&, const SampleRows&);

// embedding.cpp
void embedding(View y, ConstView ids, ConstView table);
void embedding_grad(View dtable, Accumulate, ConstView dy, ConstView ids, View scratch);

// loss.cpp
void cross_entropy(View loss, Accumulate, View logits, ConstView target, double scale, Logits,
                   View scratch);

// reduce.cpp
void column_sum(View out, Accumulate, ConstView x, View scratch);
void sum_squares(View out, ConstView x, View scratch);

// optimizer.cpp
void sgd(View master, View copy, ConstView grad, const Sgd&);
void adamw(View master, View m, View v, View copy, ConstView grad, const AdamW&);

}  // namespace trireme::host
