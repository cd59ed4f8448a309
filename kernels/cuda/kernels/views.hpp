#pragma once
// Conversion of views to the arguments of device kernels. An absent view becomes a null pointer.
// The checks are in views.cpp because they format messages with fmt, which nvcc does not compile.
#include <initializer_list>

#include "kernels/cuda/kernels/kernels.hpp"

namespace trireme::cuda {

template <class T>
T* at(const View& v) {
  expect(!v || v.dtype == dtype_of<T>, "a kernel got a view of another type");
  return reinterpret_cast<T*>(v.data);
}
template <class T>
const T* at(const ConstView& v) {
  expect(!v || v.dtype == dtype_of<T>, "a kernel got a view of another type");
  return reinterpret_cast<const T*>(v.data);
}

// Throws Error with a message that the CUDA backend does not compute in this type.
[[noreturn]] void refuse_type(DType);
// Calls f(T{}) with the C++ type T of the compute type `t`.
template <class F>
void with_type(DType t, const F& f) {
  if (t == DType::f32) return f(float{});
  if (t != DType::bf16) refuse_type(t);
  f(bf16{});
}

// Returns a pointer to the lent workspace. Throws Error, naming the operation, if the workspace has
// fewer than `bytes` bytes.
std::byte* lent(const View& workspace, std::size_t bytes, std::string_view operation);
template <class T, class O>
T* scratch(const O& o, const OnStream& on, std::size_t bytes) {
  return reinterpret_cast<T*>(lent(on.scratch, bytes, o.name));
}

void check_width(std::int64_t);    // throws Error above the widest norm
void check_experts(std::int64_t);  // throws Error above the most experts of a router

inline constexpr std::int64_t widest_head = 256, widest_mma_head = 128;

// Sizes of an attention call, in the form in which kernels receive them.
struct AttentionDims {
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  float scale;
  std::int64_t window;  // keys that a query sees, its own included; very large if no window is set
  std::int64_t keys;
  std::int64_t ahead;  // query t has the position of key t + ahead
  float softcap;       // soft cap on scores; 0 means none
};
// Converts a shape. Throws Error if the head dim or the number of samples x heads is too large.
AttentionDims dims_of(const AttentionShape&);

// Throws Error if the operands of an attention with cached keys do not fit together, or if one
// query needs more than the lent workspace. `query_bytes` is the workspace of one query.
void check_cached(const kernel::CachedAttention&, const View& lent, std::int64_t query_bytes);

// Returns true if every row of these [B, T, heads, D] views is aligned to 16 bytes and is a
// multiple of 16 bytes long. Absent views are ignored.
bool rows_in_packs(std::initializer_list<ConstView>);
// Returns true if the tensor core kernels support this shape and these [B, T, heads, D] operands:
// bf16, up to 128 dims, rows_in_packs(), and up to 2^28 tokens.
bool mma_takes(const AttentionShape&, std::initializer_list<ConstView>);

// Pointer and strides, in elements, of a [B, T, H, D] view whose last dim is dense.
template <class T>
struct Heads {
  T* data;
  std::int64_t sample, token, head;
};
template <class T>
Heads<T> heads(const View& v) {
  return {at<T>(v), v.stride[0], v.stride[1], v.stride[2]};
}
template <class T>
Heads<const T> heads(const ConstView& v) {
  return {at<T>(v), v.stride[0], v.stride[1], v.stride[2]};
}

// Pointer and strides, in elements, of a [B, H, T] view.
template <class T>
struct RowNumbers {
  T* data;
  std::int64_t sample, head, token;
};
inline RowNumbers<float> row_numbers(const View& v) {
  return {at<float>(v), v.stride[0], v.stride[1], v.stride[2]};
}
inline RowNumbers<const float> row_numbers(const ConstView& v) {
  return {at<float>(v), v.stride[0], v.stride[1], v.stride[2]};
}

}  // namespace trireme::cuda
