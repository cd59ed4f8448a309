#pragma once
// Sums over rows. Rows are divided into chunks of a fixed number of rows. The sum of each chunk is
// stored in scratch, and then the sums of the chunks are added in order. The result therefore
// depends only on the sizes.
#include "kernels/host/blocks.hpp"
#include "kernels/operations.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {

inline constexpr std::int64_t rows_per_chunk = 16;

// Calls body(first, last, parts) for consecutive ranges of rows. Each range has `parts` chunks.
// Their sums, of `width` floats each, fit in `scratch`. The ranges depend only on the sizes. Throws
// Error if `scratch` is too small for one chunk.
template <class Body>
void each_round(std::int64_t rows, std::int64_t width, const View& scratch, const Body& body) {
  const auto room = static_cast<std::int64_t>(scratch.span_bytes() / sizeof(float)) / width;
  require(room > 0 || rows == 0, "sums over {} columns do not fit into {} bytes of scratch", width,
          scratch.span_bytes());
  std::int64_t first = 0;
  do {  // without rows, one call gives sums of 0
    const auto last = std::min(rows, first + room * rows_per_chunk);
    body(first, last, (last - first + rows_per_chunk - 1) / rows_per_chunk);
    first = last;
  } while (first < rows);
}

// Computes out[c] = the sum over k of part[k * stride + c], or adds it to out[c].
inline void combine(float* out, Accumulate how, const float* part, std::int64_t stride,
                    std::int64_t parts, std::int64_t width) {
  for_chunks(width, block_size, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, block_size> total{};
    for (std::int64_t k = 0; k < parts; ++k) {
      const float* from = part + k * stride + begin;
#pragma omp simd
      for (std::int64_t l = 0; l < end - begin; ++l) total[static_cast<std::size_t>(l)] += from[l];
    }
    for (std::int64_t l = 0; l < end - begin; ++l) {
      const float t = total[static_cast<std::size_t>(l)];
      out[begin + l] = how == Accumulate::add ? out[begin + l] + t : t;
    }
  });
}

}  // namespace trireme::host
