// Copies of table rows by id, and the gradient of the table. T rows, C width, V vocabulary.
#include <cstring>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/quanta.hpp"

namespace trireme::host {

void run(const kernel::Embedding& o, View) {
  const auto& [y_TC, ids_T, table_VC] = o;
  const auto width = table_VC.extent[1];
  const auto bytes = static_cast<std::size_t>(width) * bytes_of(table_VC.dtype);
  const auto* ids = data<std::int32_t>(ids_T);
  for_rows(ids_T.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (auto t = begin; t < end; ++t) {
      expect(ids[t] >= 0 && ids[t] < table_VC.extent[0], "embedding: an id is below V");
      std::memcpy(y_TC.data + static_cast<std::size_t>(t) * bytes,
                  table_VC.data + static_cast<std::size_t>(ids[t]) * bytes, bytes);
    }
  });
}

// Adds rows of dy to the table. Each thread adds its own columns of all rows, in row order.
void run(const kernel::EmbeddingGrad& o, View scratch) {
  const auto& [dtable_VC, how, dy_TC, ids_T, most] = o;
  if (how == Accumulate::overwrite) run(kernel::Fill{.dst = dtable_VC, .value = 0}, scratch);
  const auto rows = ids_T.extent[0], width = dtable_VC.extent[1];
  const auto* ids = data<std::int32_t>(ids_T);
  by_type(dy_TC.dtype, "embedding_grad", [&]<class T>(T) {
    for_chunks(width, block_size, [&](std::int64_t begin, std::int64_t end) {
      if (dtable_VC.dtype == DType::i64) {
        Largest largest;
        for (std::int64_t t = 0; t < rows; ++t) {
          const T* from = data<T>(dy_TC) + t * width + begin;
          add_quanta(data<std::int64_t>(dtable_VC) + ids[t] * width + begin, Accumulate::add, from,
                     end - begin);
          largest.take(from, end - begin);
        }
        return largest.put(most);
      }
      for (std::int64_t t = 0; t < rows; ++t) {
        float* to = data<float>(dtable_VC) + ids[t] * width;
        const T* from = data<T>(dy_TC) + t * width;
#pragma omp simd
        for (auto c = begin; c < end; ++c) to[c] += static_cast<float>(from[c]);
      }
    });
  });
}

}  // namespace trireme::host
