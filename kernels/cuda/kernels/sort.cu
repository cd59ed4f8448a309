// Stable sort of rows by id. Rows with equal ids stay in row order, so the result is always the
// same.
#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/launch.cuh"

namespace trireme::cuda {
namespace {

struct Numbered {
  std::int32_t* rows_T;
  __device__ void operator()(std::int64_t i) const { rows_T[i] = static_cast<std::int32_t>(i); }
};

// Sizes of the scratch: row numbers, sorted ids, and the memory of the sort itself.
struct Sorting {
  std::size_t column, sort;

  // The sort supports only 32-bit sizes, and rows have 32-bit numbers.
  explicit Sorting(std::int64_t rows)
      : column((static_cast<std::size_t>(rows) * sizeof(std::int32_t) + 255) / 256 * 256) {
    check_count(rows, std::numeric_limits<std::int32_t>::max(), "rows to be sorted");
    const std::int32_t* in = nullptr;
    std::int32_t* out = nullptr;
    check(cub::DeviceRadixSort::SortPairs(nullptr, sort, in, out, in, out, static_cast<int>(rows)),
          "size of a sort");
  }
  std::size_t bytes() const { return 2 * column + sort; }
};

int bits_of(std::int64_t limit) {
  int bits = 1;
  while ((std::int64_t{1} << bits) < limit) ++bits;
  return bits;
}

}  // namespace

std::size_t bytes_to_sort(std::int64_t rows) {
  return Sorting(rows).bytes();
}

const std::int32_t* sort_rows(Stream stream, const char* name, std::byte* memory,
                              std::int32_t* order_T, const std::int32_t* ids_T, std::int64_t rows,
                              std::int64_t limit) {
  Sorting sorting(rows);
  auto* const numbers = reinterpret_cast<std::int32_t*>(memory);
  auto* const sorted = reinterpret_cast<std::int32_t*>(memory + sorting.column);
  if (rows == 0) return sorted;
  launch_each(stream, name, rows, Numbered{numbers});
  check(cub::DeviceRadixSort::SortPairs(memory + 2 * sorting.column, sorting.sort, ids_T, sorted,
                                        numbers, order_T, static_cast<int>(rows), 0, bits_of(limit),
                                        native(stream)),
        name);
  return sorted;
}

}  // namespace trireme::cuda
