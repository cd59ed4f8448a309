// y = skip + x * keep / (1 - p). B samples, T positions, C width.
#include "kernels/math/dropout.hpp"

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"

namespace trireme::host {
namespace {

// Writes random numbers 4 * first to 4 * (first + groups) - 1 of a sample. `groups` must be a
// multiple of 16.
void draw(std::uint32_t* random, std::uint64_t key, std::uint64_t sample, std::uint64_t first,
          std::int64_t groups) {
  for (std::int64_t begin = 0; begin < groups; begin += 16) {
#pragma omp simd
    for (int g = 0; g < 16; ++g) {
      const auto at = begin + g;
      const Random4 r = philox4x32(key, first + static_cast<std::uint64_t>(at), sample);
      random[4 * at] = r[0];
      random[4 * at + 1] = r[1];
      random[4 * at + 2] = r[2];
      random[4 * at + 3] = r[3];
    }
  }
}

// Computes y for p > 0. The mask of an element depends on the element's index in its sample.
template <class T>
void drop(const kernel::Dropout& o) {
  const auto& [y, x, skip, key, rows] = o;
  const math::Dropout mask(key.p);
  const std::int64_t size = x.extent[1] * x.extent[2];  // elements of one sample
  const std::int64_t pieces = (size + grain - 1) / grain;
  // Each body copies the mask. When the loop read the mask through the closure, the compiler did
  // not vectorize it.
  const auto with_skip = [=](T* to, const T* from, const T* add, const std::uint32_t* random) {
    const math::Dropout m = mask;
#pragma omp simd
    for (int l = 0; l < block_size; ++l) {
      put(to[l], static_cast<float>(add[l]) + m(static_cast<float>(from[l]), random[l]));
    }
  };
  const auto without = [=](T* to, const T* from, const std::uint32_t* random) {
    const math::Dropout m = mask;
#pragma omp simd
    for (int l = 0; l < block_size; ++l) put(to[l], m(static_cast<float>(from[l]), random[l]));
  };
  // Computes n elements of sample b, from index `begin` of x. `place` is the index of the first of
  // these elements in the whole sample.
  const auto some = [&](std::int64_t b, std::int64_t begin, std::int64_t n, std::int64_t place) {
    std::array<std::uint32_t, grain + block_size> random;
    const auto at = b * size + begin, lane = place % 4, groups = (lane + n + 3) / 4;
    draw(random.data(), key.key, static_cast<std::uint64_t>(data<std::int64_t>(rows.sample_B)[b]),
         static_cast<std::uint64_t>(place / 4), (groups + 15) / 16 * 16);
    const std::uint32_t* numbers = random.data() + lane;
    if (skip) {
      for_blocks(n, with_skip, data<T>(y) + at, data<T>(x) + at, data<T>(skip) + at, numbers);
    } else {
      for_blocks(n, without, data<T>(y) + at, data<T>(x) + at, numbers);
    }
  };
  const auto width = x.extent[2];
  if (rows.position_T) {
    const auto* const position = data<std::int32_t>(rows.position_T);
    for_rows(x.extent[0] * x.extent[1], width, [&](std::int64_t first, std::int64_t end) {
      for (auto row = first; row < end; ++row)
        for (std::int64_t c = 0; c < width; c += grain) {
          const auto b = row / x.extent[1], t = row % x.extent[1];
          some(b, t * width + c, std::min(width - c, grain), position[t] * width + c);
        }
    });
    return;
  }
  for_chunks(x.extent[0] * pieces, 1, [&](std::int64_t piece, std::int64_t) {
    const auto begin = piece % pieces * grain;
    some(piece / pieces, begin, std::min(size - begin, grain), rows.t0 * width + begin);
  });
}

// Computes y for p = 0, which needs no random numbers.
template <class T>
void keep_all(const kernel::Dropout& o, const View& scratch) {
  const auto& [y, x, skip, key, rows] = o;
  if (!skip) {
    if (y.data != x.data) run(kernel::Copy{.dst = y, .src = x}, scratch);
    return;
  }
  const auto body = [](T* to, const T* from, const T* add) {
#pragma omp simd
    for (int l = 0; l < block_size; ++l) {
      put(to[l], static_cast<float>(add[l]) + static_cast<float>(from[l]));
    }
  };
  map_blocks(x.count(), body, data<T>(y), data<T>(x), data<T>(skip));
}

}  // namespace

void run(const kernel::Dropout& o, View scratch) {
  by_type(o.x_BTC.dtype, "dropout", [&]<class T>(T) {
    if (o.key.p == 0) {
      keep_all<T>(o, scratch);
    } else {
      drop<T>(o);
    }
  });
}

}  // namespace trireme::host
