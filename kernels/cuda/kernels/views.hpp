#pragma once
// From the contract's views to what the kernels take. A pointer to what is absent is null. What
// is refused is said in views.cpp, as nvcc does not take fmt.
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

// f(T{}) for a compute type.
[[noreturn]] void refuse_type(DType);
template <class F>
void with_type(DType t, const F& f) {
  if (t == DType::f32) return f(float{});
  if (t != DType::bf16) refuse_type(t);
  f(bf16{});
}

// The lent workspace, if it has so many bytes.
std::byte* lent(const View& workspace, std::size_t bytes, std::string_view operation);
template <class T, class O>
T* scratch(const O& o, const OnStream& on, std::size_t bytes) {
  return reinterpret_cast<T*>(lent(on.scratch, bytes, o.name));
}

void check_width(std::int64_t);    // of norms
void check_experts(std::int64_t);  // of a router

inline constexpr std::int64_t widest_head = 256;

struct AttentionDims {
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  float scale;
  std::int64_t window;  // of keys that a query sees; more than there are, where none is hidden
  std::int64_t keys;
  std::int64_t ahead;  // query t is at the place of key t + ahead
  float softcap;       // of scores; 0: none
};
AttentionDims dims_of(const AttentionShape&);

// [B, T, H, D] at any strides (in elements) but a dense last dim.
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

// [B, H, T] at any strides.
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
