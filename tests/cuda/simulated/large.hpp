#pragma once
// Arrays of more than 2^31 elements. They lie in memory that is reserved and not there until it is
// touched; of each grid the last block runs, which ends at the last element, and what it makes of
// that has the bits of the same computation on a small array.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "kernels/cuda/kernels/kernels.hpp"
#include "lib/base/error.hpp"
#include "tests/cuda/simulated/block.hpp"
#include "tests/cuda/simulated/streams.hpp"
#include "tests/support/values.hpp"

namespace trireme::cuda {

inline constexpr std::int64_t two_31 = std::int64_t{1} << 31;
inline constexpr std::int64_t most_threads =
    8192 * 256;  // of a kernel whose threads stride over the rest

// Zeros.
template <class T>
class Large {
 public:
  explicit Large(std::int64_t n) : n_(n) {
    void* p = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(p != MAP_FAILED, "{} bytes of addresses are not to be had", bytes());
    madvise(p, bytes(), MADV_NOHUGEPAGE);
    data_ = static_cast<T*>(p);
  }
  ~Large() { munmap(data_, bytes()); }
  Large(const Large&) = delete;
  Large& operator=(const Large&) = delete;

  T* data() const { return data_; }
  View view(const Shape& s) const { return {reinterpret_cast<std::byte*>(data_), dtype_of<T>, s}; }
  T* last(std::int64_t n) const { return data_ + n_ - n; }
  const Large& ends_in(const std::vector<T>& values) const {
    std::memcpy(last(std::ssize(values)), values.data(), values.size() * sizeof(T));
    return *this;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(T); }
  std::int64_t n_;
  T* data_;
};

template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<T> all;
  for (const double x : random_values(n, seed)) all.push_back(T(static_cast<float>(x)));
  return all;
}
template <class T>
std::vector<T> nothing(std::int64_t n) {
  return std::vector<T>(static_cast<std::size_t>(n));
}

// Of numbers that lie together, as many as the shape says.
template <class T>
View view_of(T* data, const Shape& s) {
  return {reinterpret_cast<std::byte*>(data), dtype_of<T>, s};
}
template <class T>
ConstView view_of(const T* data, const Shape& s) {
  return {reinterpret_cast<const std::byte*>(data), dtype_of<T>, s};
}

// The last elements of `large`, and all of `small`.
template <class T>
void expect_same(const Large<T>& large, const std::vector<T>& small, const char* what) {
  EXPECT_EQ(std::memcmp(large.last(std::ssize(small)), small.data(), small.size() * sizeof(T)), 0)
      << what;
  const auto zeros = nothing<T>(std::ssize(small));
  EXPECT_NE(std::memcmp(zeros.data(), small.data(), small.size() * sizeof(T)), 0) << what;
}

// Where the kernel promises no more memory than there is (vm.overcommit_memory = 2, ulimit -v).
inline bool sparse_arrays_are_to_be_had() {
  constexpr std::size_t most = std::size_t{128} << 30;
  void* p = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, most);
  return true;
}

class OnSparseArrays : public testing::Test {
 protected:
  void SetUp() override {
    if (!sparse_arrays_are_to_be_had()) GTEST_SKIP() << "128 GiB of addresses are not to be had";
  }
};

template <class T>
class LargeArrays : public OnSparseArrays {
 protected:
  LargeArrays() { cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0); }
  ~LargeArrays() override { simulated::mend(); }

  // `kernel` puts its work on the stream.
  template <class F>
  void last_block(const F& kernel) {
    const simulated::LastBlocks one(1);
    all_blocks(kernel);
  }
  template <class F>
  void all_blocks(const F& kernel) {
    kernel(OnStream{stream_, scratch_});
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << simulated::fault();
  }

  static constexpr std::int64_t pack = 16 / sizeof(T);
  // Of a kernel that strides: its last element is the last block's.
  static constexpr std::int64_t strided = two_31 + most_threads * pack;

  // As much as a kernel asks for.
  void lend(std::int64_t bytes) {
    workspace_.resize(static_cast<std::size_t>(bytes) / sizeof(float));
    scratch_ = view_of(workspace_.data(), {std::ssize(workspace_)});
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::vector<float> workspace_;
  View scratch_;
};
using LargeTypes = testing::Types<float, bf16>;

}  // namespace trireme::cuda
