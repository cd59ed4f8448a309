// Decoding of 4-bit weights. A thread decodes one word (eight weights) at a time.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/math/nf4.hpp"
#include "kernels/nf4.hpp"

namespace trireme::cuda {
namespace {

// Records as rows of words.
struct Rows {
  const std::int32_t *code_SW, *scale_SW;
  const float* unit_S1;
  std::int64_t code_stride, scale_stride, unit_stride;
};

template <class T>
__global__ void __launch_bounds__(block_threads) dequantize(T* y_N, Rows rows, std::int64_t words) {
  __shared__ float codes[16];
  if (threadIdx.x < 16) codes[threadIdx.x] = math::nf4_code(threadIdx.x);
  __syncthreads();
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += step) {
    const auto s = i / nf4::code_words;
    const auto word = static_cast<int>(i % nf4::code_words);
    const int block = word / static_cast<int>(nf4::block / 8);
    const auto eight = static_cast<unsigned>(rows.code_SW[s * rows.code_stride + word]),
               four = static_cast<unsigned>(rows.scale_SW[s * rows.scale_stride + block / 4]);
    const float scale =
        math::nf4_scale(rows.unit_S1[s * rows.unit_stride], four >> (block % 4 * 8) & 0xffU);
    Floats<8> y;
#pragma unroll
    for (int k = 0; k < 8; ++k)
      y.v[k] = codes[eight >> (k / 2 * 8 + (k % 2 == 0 ? 4 : 0)) & 15U] * scale;
    store<8>(y_N + 8 * i, y);
  }
}

}  // namespace

void run(const kernel::Dequantize& o, const OnStream& on) {
  const auto words = o.code_SW.extent[0] * nf4::code_words;
  if (words == 0) return;
  expect(o.y_N.dense() && o.y_N.count() == 8 * words && o.code_SW.stride[1] == 1 &&
             o.scale_SW.stride[1] == 1 && aligned(o.y_N.data),
         "dequantize: of whole records with dense rows");
  const Rows rows{at<std::int32_t>(o.code_SW), at<std::int32_t>(o.scale_SW), at<float>(o.unit_S1),
                  o.code_SW.stride[0],         o.scale_SW.stride[0],         o.unit_S1.stride[0]};
  const auto blocks = blocks_for(std::min(words, most_blocks * block_threads), block_threads);
  with_type(o.y_N.dtype, [&]<class T>(T) {
    start("dequantize", dequantize<T>, blocks, block_threads, 0, on.stream, at<T>(o.y_N), rows,
          words);
  });
}

}  // namespace trireme::cuda
