// Sorting of token rows by expert. T tokens, E experts, K choices per token, R = T K rows.
#include <utility>

#include "kernels/host/blocks.hpp"
#include "kernels/host/kernels.hpp"

namespace trireme::host {

// Counts choices if counted_T is present. A token may then count in any row, so one thread counts
// all tokens.
static void count_as_said(const kernel::CountChoices& o) {
  const auto tokens = o.choice_TK.extent[0], K = o.choice_TK.extent[1], E = o.count_BE.extent[1];
  const auto in_a_row = std::max<std::int64_t>(1, tokens / o.count_BE.extent[0]);
  const auto* choice = data<std::int32_t>(o.choice_TK);
  for (std::int64_t t = 0; t < tokens; ++t, choice += K) {
    const std::int64_t as = data<std::int32_t>(o.counted_T)[t];
    if (as < 0) continue;
    auto* count = data<std::int64_t>(o.count_BE) + as / in_a_row * E;
    for (std::int64_t k = 0; k < K; ++k) ++count[choice[k]];
  }
}

// Counts choices. Each thread counts its own rows of count_BE.
void run(const kernel::CountChoices& o, View) {
  const auto samples = o.count_BE.extent[0], E = o.count_BE.extent[1];
  const auto each = samples == 0 || o.counted_T ? 0 : o.choice_TK.count() / samples;
  for_chunks(samples, 1, [&](std::int64_t b, std::int64_t) {
    auto* count = data<std::int64_t>(o.count_BE) + b * E;
    const auto* choice = data<std::int32_t>(o.choice_TK) + b * each;
    if (o.how == Accumulate::overwrite) std::fill_n(count, E, std::int64_t{0});
    for (std::int64_t i = 0; i < each; ++i) ++count[choice[i]];
  });
  if (o.counted_T && samples > 0) count_as_said(o);
}

// Counts the choices of each chunk first. The counts give the row of each chunk's first choice of
// each expert, so the chunks can then be sorted in parallel.
void run(const kernel::SortChoices& o, View scratch) {
  const auto R = o.choice_TK.count(), K = o.choice_TK.extent[1], E = o.offset_E1.extent[0] - 1;
  const auto room = static_cast<std::int64_t>(scratch.span_bytes() / sizeof(std::int32_t)) / E;
  require(room > 0 || R == 0, "sort_choices: {} experts do not fit into {} bytes of scratch", E,
          scratch.span_bytes());
  const auto each = std::max(grain, R / std::max<std::int64_t>(room, 1) + 1);
  const auto chunks = (R + each - 1) / each;
  const auto* choice = data<std::int32_t>(o.choice_TK);
  auto* next = data<std::int32_t>(scratch);
  for_chunks(R, each, [&](std::int64_t begin, std::int64_t end) {
    auto* count = next + begin / each * E;
    std::fill_n(count, E, 0);
    for (auto i = begin; i < end; ++i) {
      expect(choice[i] >= 0 && choice[i] < E, "sort_choices: a choice is below E");
      ++count[choice[i]];
    }
  });
  auto* offset = data<std::int32_t>(o.offset_E1);
  std::int32_t first = 0;
  for (std::int64_t e = 0; e < E; ++e) {
    offset[e] = first;
    for (std::int64_t c = 0; c < chunks; ++c) first += std::exchange(next[c * E + e], first);
  }
  offset[E] = first;
  for_chunks(R, each, [&](std::int64_t begin, std::int64_t end) {
    auto* at = next + begin / each * E;
    for (auto i = begin; i < end; ++i) {
      const auto row = at[choice[i]]++;
      data<std::int32_t>(o.token_R)[row] = static_cast<std::int32_t>(i / K);
      data<std::int32_t>(o.choice_R)[row] = static_cast<std::int32_t>(i);
      data<std::int32_t>(o.row_TK)[i] = row;
    }
  });
}

// Prefetches the cache lines of one block.
template <class T>
static void prefetch(const T* p) {
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t i = 0; i < block_size; i += line) __builtin_prefetch(p + i);
}

// Sums the rows of each token. These rows are scattered in memory, so the loop prefetches the rows
// of the next token. Without prefetching, the operation takes at least twice the time.
void run(const kernel::SumRows& o, View) {
  const auto width = o.y_TC.extent[1], K = o.row_TK.extent[1];
  by_type(o.y_TC.dtype, "sum_rows", [&]<class T>(T) {
    // Sums n columns of token t, from column c on. The function only adds, so its bits do not
    // depend on the length of the block.
    const auto sum_columns = [&](std::int64_t t, std::int64_t c, auto n) {
      std::array<float, block_size> sum{};
      const auto add = [&](const T* from) {
#pragma omp simd
        for (std::int64_t l = 0; l < n; ++l)
          sum[static_cast<std::size_t>(l)] += static_cast<float>(from[l]);
      };
      const auto* place = data<std::int32_t>(o.row_TK) + t * K;
      if (o.skip_TC) add(data<T>(o.skip_TC) + t * width + c);
      const T* x = data<T>(o.x_RC) + c;
      for (std::int64_t k = 0; k < K; ++k) add(x + place[k] * width);
      const auto next = t + 1 < o.y_TC.extent[0] ? K : 0;
      for (auto k = next; k < 2 * next; ++k) prefetch(x + place[k] * width);
      T* to = data<T>(o.y_TC) + t * width + c;
#pragma omp simd
      for (std::int64_t l = 0; l < n; ++l) put(to[l], sum[static_cast<std::size_t>(l)]);
    };
    for_rows(o.y_TC.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
      for (auto t = begin; t < end; ++t) {
        std::int64_t c = 0;
        for (; c + block_size <= width; c += block_size)
          sum_columns(t, c, std::integral_constant<std::int64_t, block_size>{});
        if (c < width) sum_columns(t, c, width - c);
      }
    });
  });
}

}  // namespace trireme::host
