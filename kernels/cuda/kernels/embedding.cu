// Embedding and its gradient. The gradient sorts rows by id with a stable sort, and one warp adds
// the rows of an id in row order. It uses no atomics, so the bits are the same every time.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

template <int N, class T>
struct Lookup {
  T* y_TC;
  const std::int32_t* ids_T;
  const T* table_VC;
  std::int64_t width;

  __device__ void operator()(std::int64_t i) const {
    const auto at = i * N, row = at / width, c = at - row * width;
    Pack<T, N>::load(table_VC + ids_T[row] * width + c).store(y_TC + at);
  }
};

// Adds the rows of ids. If an id begins at sorted place i, a warp of block (i / warps, columns)
// adds its rows. A common id has thousands of rows, so several are loaded at a time. They are added
// one by one.
constexpr int warps = 4, ahead = 8;
static_assert(warp % ahead == 0);

template <int N, class T>
__global__ void __launch_bounds__(warp* warps)
    add_rows(float* dtable_VC, const T* dy_TC, const std::int32_t* sorted_ids_T,
             const std::int32_t* sorted_rows_T, std::int64_t rows, std::int64_t width) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp;
  const int lane = threadIdx.x % warp;
  const auto c = (static_cast<std::int64_t>(blockIdx.y) * warp + lane) * N;
  if (i >= rows) return;
  const auto id = sorted_ids_T[i];
  if (i > 0 && sorted_ids_T[i - 1] == id) return;
  const bool inside = c < width;
  float* const out = dtable_VC + id * width + c;
  auto sum = inside ? load<N>(out) : Floats<N>{};
  int found = warp;
  for (auto j = i; found == warp; j += warp) {
    const auto place = j + lane;
    const bool same = place < rows && sorted_ids_T[place] == id;
    const auto row = same ? sorted_rows_T[place] : 0;
    found = __popc(__ballot_sync(0xffffffffU, same));
    for (int k = 0; k < found; k += ahead) {
      std::int32_t from[ahead];
#pragma unroll
      for (int a = 0; a < ahead; ++a) from[a] = __shfl_sync(0xffffffffU, row, k + a);
      Pack<T, N> dy[ahead];
#pragma unroll
      for (int a = 0; a < ahead; ++a)
        dy[a] =
            inside && k + a < found ? Pack<T, N>::load(dy_TC + from[a] * width + c) : Pack<T, N>{};
      if (!inside) continue;  // without this branch, each load would wait for the previous sum
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        const auto more = dy[a].floats();
#pragma unroll
        for (int n = 0; n < N; ++n) sum.v[n] += more.v[n];
      }
    }
  }
  if (inside) store<N>(out, sum);
}

}  // namespace

void run(const kernel::Embedding& o, const OnStream& on) {
  with_type(o.y_TC.dtype, [&]<class T>(T) {
    auto* const y = at<T>(o.y_TC);
    const auto* const table = at<T>(o.table_VC);
    const auto width = o.y_TC.extent[1];
    with_packs<pack_of<T>>(width % pack_of<T> == 0 && aligned(y, table), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      launch_each(on.stream, "embedding", o.y_TC.count() / N,
                  Lookup<N, T>{y, at<std::int32_t>(o.ids_T), table, width});
    });
  });
}

void run(const kernel::EmbeddingGrad& o, const OnStream& on) {
  const auto rows = o.dy_TC.extent[0], width = o.dy_TC.extent[1];
  const auto column = (static_cast<std::size_t>(rows) * sizeof(std::int32_t) + 255) / 256 * 256;
  auto* const memory = scratch<std::byte>(o, on, column + bytes_to_sort(rows));
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.dtable_VC}, on);
  if (rows == 0) return;
  auto* const order = reinterpret_cast<std::int32_t*>(memory);
  const auto* const ids = sort_rows(on.stream, "embedding_grad", memory + column, order,
                                    at<std::int32_t>(o.ids_T), rows, o.dtable_VC.extent[0]);
  with_type(o.dy_TC.dtype, [&]<class T>(T) {
    auto* const dtable = at<float>(o.dtable_VC);
    const auto* const dy = at<T>(o.dy_TC);
    with_packs<pack_of<T>>(width % pack_of<T> == 0 && aligned(dtable, dy), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      const dim3 grid(blocks_for(rows, warps), blocks_for(width, warp * N, most_along_y));
      start("embedding_grad", add_rows<N, T>, grid, warp * warps, 0, on.stream, dtable, dy, ids,
            order, rows, width);
    });
  });
}

}  // namespace trireme::cuda
