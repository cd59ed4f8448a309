// Choices of experts: counting them, sorting rows by expert, and summing rows.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

// Counts choices with atomics. Sums of integers do not depend on the order.
struct Count {
  std::int64_t* count_BE;
  const std::int32_t *choice_TK, *counted_T;  // the second may be null
  std::int64_t in_a_row, choices, experts;

  __device__ void operator()(std::int64_t i) const {
    const auto t = i / choices;
    const auto as = counted_T == nullptr ? t : static_cast<std::int64_t>(counted_T[t]);
    if (as < 0) return;
    auto* const count = count_BE + as / in_a_row * experts + choice_TK[i];
    atomicAdd(reinterpret_cast<unsigned long long*>(count), 1ULL);
  }
};

// Processes sorted row r, or the end of the rows. Row r is the first row of all experts after the
// previous row's expert, up to the expert of row r.
struct Place {
  std::int32_t *offset_E1, *token_R, *row_TK;
  const std::int32_t *choice_R, *expert_R;
  std::int64_t rows, experts, choices;

  __device__ void operator()(std::int64_t r) const {
    const auto here = static_cast<std::int32_t>(r);
    const auto before = r == 0 ? -1 : expert_R[r - 1];
    const auto last = r == rows ? static_cast<std::int32_t>(experts) : expert_R[r];
    for (auto e = before; e < last;) offset_E1[++e] = here;
    if (r == rows) return;
    const auto row = choice_R[r];
    token_R[r] = row / static_cast<std::int32_t>(choices);
    row_TK[row] = here;
  }
};

template <int N, class T>
struct AddChoices {
  T* y_TC;
  const T *x_RC, *skip_TC;  // skip may be null, or y
  const std::int32_t* row_TK;
  std::int64_t choices, width;

  __device__ void operator()(std::int64_t i) const {
    const auto at = i * N, t = at / width, c = at - t * width;
    auto sum = skip_TC == nullptr ? Floats<N>{} : load<N>(skip_TC + at);
    for (std::int64_t k = 0; k < choices; ++k) {
      const auto x = load<N>(x_RC + row_TK[t * choices + k] * width + c);
#pragma unroll
      for (int n = 0; n < N; ++n) sum.v[n] += x.v[n];
    }
    store<N>(y_TC + at, sum);
  }
};

}  // namespace

void run(const kernel::CountChoices& o, const OnStream& on) {
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.count_BE}, on);
  const auto n = o.choice_TK.count();
  if (n == 0) return;
  launch_each(on.stream, "count_choices", n,
              Count{at<std::int64_t>(o.count_BE), at<std::int32_t>(o.choice_TK),
                    at<std::int32_t>(o.counted_T), o.choice_TK.extent[0] / o.count_BE.extent[0],
                    o.choice_TK.extent[1], o.count_BE.extent[1]});
}

void run(const kernel::SortChoices& o, const OnStream& on) {
  const auto rows = o.choice_TK.count(), experts = o.offset_E1.extent[0] - 1;
  auto* const memory = scratch<std::byte>(o, on, bytes_to_sort(rows));
  auto* const choice_R = at<std::int32_t>(o.choice_R);
  const auto* const expert_R = sort_rows(on.stream, "sort_choices", memory, choice_R,
                                         at<std::int32_t>(o.choice_TK), rows, experts);
  launch_each(
      on.stream, "sort_choices", rows + 1,
      Place{at<std::int32_t>(o.offset_E1), at<std::int32_t>(o.token_R), at<std::int32_t>(o.row_TK),
            choice_R, expert_R, rows, experts, o.choice_TK.extent[1]});
}

void run(const kernel::SumRows& o, const OnStream& on) {
  with_type(o.y_TC.dtype, [&]<class T>(T) {
    auto* const y = at<T>(o.y_TC);
    const auto *const x = at<T>(o.x_RC), *const skip = at<T>(o.skip_TC);
    const auto width = o.y_TC.extent[1];
    with_packs<pack_of<T>>(width % pack_of<T> == 0 && aligned(y, x, skip), [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      launch_each(
          on.stream, "sum_rows", o.y_TC.count() / N,
          AddChoices<N, T>{y, x, skip, at<std::int32_t>(o.row_TK), o.row_TK.extent[1], width});
    });
  });
}

}  // namespace trireme::cuda
