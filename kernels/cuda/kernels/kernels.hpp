#pragma once
// The device kernels as plain functions: what kernels/operations.hpp says of each, on pointers, put
// on a stream. T is the compute type, float or bf16, and both are instantiated; arithmetic is in
// f32, but sums that the contract keeps in f64 are in f64. Scratch is the lent workspace. No sum
// depends on the order in which blocks run: partial sums are cut by size and added in order. A
// pointer is null only where that is said.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/accumulate.hpp"
#include "kernels/activation.hpp"
#include "kernels/update_rule.hpp"
#include "lib/base/dtype.hpp"
#include "lib/base/rng.hpp"

namespace trireme::cuda {

using Stream = void*;  // a cudaStream_t

// pointwise.cu
template <class T>
void activate(Stream, Activation, T* y, const T* x, std::int64_t n);
template <class T>
void activate_grad(Stream, Activation, T* dx, const T* dy, const T* x, std::int64_t n);
template <class T>
void swiglu(Stream, T* y_TF, const T* gate_up_T2F, std::int64_t rows, std::int64_t width);
template <class T>
void swiglu_grad(Stream, T* dgate_up_T2F, const T* dy_TF, const T* gate_up_T2F, std::int64_t rows,
                 std::int64_t width);

// [B, T, H, D] at any strides (in elements) but a dense last dim.
template <class T>
struct Heads {
  T* data;
  std::int64_t sample, token, head;
};

// rotary.cu. sign: 1 turns forward, -1 back.
template <class T>
void rotary(Stream, Heads<T> x_BTHD, const float* table_T2E, float sign, std::int64_t samples,
            std::int64_t tokens, std::int64_t heads, std::int64_t head_dim);

// dropout.cu. skip may be null.
struct DropoutRows {
  std::int64_t samples, tokens, width, t0;
  const std::int64_t* sample_B;
};
template <class T>
struct Dropped {
  T* y;
  const T *x, *skip;
  DropoutKey key;
  DropoutRows rows;
};
template <class T>
void dropout(Stream, const Dropped<T>&);

// copy.cu. Any strides on both sides; between float, double and bf16, or bytes of one integer type.
struct CopyShape {
  static constexpr int most = 6;
  int dims;
  std::int64_t extent[most], to[most], from[most];  // strides in elements
};
template <class To, class From>
void copy(Stream, To* dst, const From* src, const CopyShape&, Accumulate);
template <class T>
void fill(Stream, T* dst, T value, const CopyShape&);  // `from` is not read

// norm.cu. means null: the RMS norm; b may be null. width <= 8,192.
inline constexpr std::int64_t widest_norm = 8192;
template <class T>
struct NormRows {
  T* y;
  float *means, *rstds;
  const T *x, *w, *b;
  std::int64_t rows, width;
  float each, eps;  // 1 / width
};
template <class T>
void norm(Stream, const NormRows<T>&);
// dx, dw, db and onto may be null; dx = onto + ... Scratch: norm_scratch(rows, width) bytes.
template <class T>
struct NormGradRows {
  T* dx;
  float *dw, *db;
  Accumulate how;
  const T *onto, *dy, *x, *w;
  const float *means, *rstds;
  std::int64_t rows, width;
  float each;  // 1 / width
  float* scratch;
};
template <class T>
void norm_grad(Stream, const NormGradRows<T>&);
std::size_t norm_scratch(std::int64_t rows, std::int64_t width);

// residual_norm.cu. The norm of the sum that dropout makes: norm.x is sum.y.
template <class T>
void residual_norm(Stream, const Dropped<T>& sum, const NormRows<T>& norm);

// reduce.cu. Scratch: column_scratch bytes.
template <class T>
void column_sum(Stream, float* out_C, Accumulate, const T* x_TC, std::int64_t rows,
                std::int64_t width, float* scratch);
std::size_t column_scratch(std::int64_t rows, std::int64_t width);
// a_C (+)= sum over `parts` rows of partial_2PC[0], b_C of partial_2PC[1], in order; either of a_C
// and b_C may be null.
void add_partials(Stream, float* a_C, float* b_C, Accumulate, const float* partial_2PC,
                  std::int64_t parts, std::int64_t width);
// out (+)= sum of x, in order
void sum_in_order(Stream, double* out, Accumulate, const double* x, std::int64_t n);

// squares.cu. out[i] = sum of squares of x[i]. Scratch: square_scratch bytes for each array.
template <class T>
struct Array {
  const T* data;
  std::int64_t count;
};
template <class T>
void sum_squares(Stream, double* out_N, std::span<const Array<T>> x, double* scratch);
std::size_t square_scratch(std::int64_t count);

// embedding.cu. Scratch of the gradient: embedding_scratch(rows) bytes.
template <class T>
void embedding(Stream, T* y_TC, const std::int32_t* ids_T, const T* table_VC, std::int64_t rows,
               std::int64_t width);
template <class T>
void embedding_grad(Stream, float* dtable_VC, const T* dy_TC, const std::int32_t* ids_T,
                    std::int64_t rows, std::int64_t width, std::int64_t vocab, std::byte* scratch);
std::size_t embedding_scratch(std::int64_t rows);

// loss.cu. Scratch: one double a row.
template <class T>
void cross_entropy(Stream, double* loss, Accumulate, T* logits_TV, const std::int32_t* target_T,
                   std::int64_t rows, std::int64_t vocab, float scale, bool become_gradient,
                   double* scratch);

// optimizer.cu. copy may be null; state: as many as the rule has arrays.
template <class T>
struct UpdateShard {
  float* master;
  T* copy;
  const float* grad;
  float* state[most_update_arrays];
  std::int64_t count;
  UpdateFactors factors;
};
template <class T>
void update(Stream, const UpdateRule&, std::span<const UpdateShard<T>>);

// digest.cu. `bytes` of an array on 4 bytes, from its block `first` on (lib/base/digest.hpp);
// out_N[i] gets the digest of parts[i].
// Scratch: digest_scratch bytes.
struct DigestPart {
  const std::byte* data;
  std::int64_t bytes, first;
};
void digest_parts(Stream, std::int64_t* out_N, std::span<const DigestPart>, std::byte* scratch);
std::size_t digest_scratch(std::span<const DigestPart>);

// attention.cu, attention_grad.cu: any head dim up to 256 and any number of heads; for what cuDNN
// refuses. Query head h reads key/value head h * G / H.
struct AttentionDims {
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  float scale;
};
inline constexpr std::int64_t widest_head = 256;
template <class T>
struct AttentionInputs {
  Heads<const T> q, k, v;
  AttentionDims dims;
};
template <class T>
void attention(Stream, Heads<T> o, float* lse_BHT, const AttentionInputs<T>&);
template <class T>
struct AttentionGradients {
  Heads<T> dq, dk, dv;
  Heads<const T> d_o, o;
  const float* lse_BHT;
  float* delta_BHT;  // scratch
};
template <class T>
void attention_grad(Stream, const AttentionGradients<T>&, const AttentionInputs<T>&);

}  // namespace trireme::cuda
