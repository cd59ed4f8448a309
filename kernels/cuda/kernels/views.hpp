#pragma once
// From the contract's views to what the kernels take.
#include "kernels/cuda/kernels/kernels.hpp"
#include "lib/base/view.hpp"

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
template <class F>
void with_type(DType t, const F& f) {
  if (t == DType::f32) return f(float{});
  require(t == DType::bf16, "run.backend = \"cuda\" computes in f32 and bf16, not in {}",
          name_of(t));
  f(bf16{});
}

template <class T>
Heads<T> heads(const View& v) {
  return {at<T>(v), v.stride[0], v.stride[1], v.stride[2]};
}
template <class T>
Heads<const T> heads(const ConstView& v) {
  return {at<T>(v), v.stride[0], v.stride[1], v.stride[2]};
}

}  // namespace trireme::cuda
