// Sums over rows and over whole arrays. T rows, C width.
#include "kernels/host/kernels.hpp"
#include "kernels/host/quanta.hpp"
#include "kernels/host/rows.hpp"

namespace trireme::host {

// Each thread adds its own columns of all rows.
static void add_quanta(const kernel::ColumnSum& o) {
  const auto rows = o.x_TC.extent[0], width = o.x_TC.extent[1];
  by_type(o.x_TC.dtype, "column_sum", [&]<class T>(T) {
    for_chunks(width, 8 * block_size, [&](std::int64_t begin, std::int64_t end) {
      Largest largest;
      for (std::int64_t t = 0; t < rows; ++t) {
        const T* x = data<T>(o.x_TC) + t * width + begin;
        add_quanta(data<std::int64_t>(o.out_C) + begin, t == 0 ? o.how : Accumulate::add, x,
                   end - begin);
        largest.take(x, end - begin);
      }
      largest.put(o.largest);
    });
  });
}

void run(const kernel::ColumnSum& o, View scratch) {
  if (o.out_C.dtype == DType::i64) return add_quanta(o);
  const auto& [out_C, how, x_TC, largest] = o;
  const auto rows = x_TC.extent[0], width = x_TC.extent[1];
  by_type(x_TC.dtype, "column_sum", [&]<class T>(T) {
    float* parts = data<float>(scratch);
    each_round(rows, width, scratch, [&](std::int64_t first, std::int64_t last, std::int64_t n) {
      for_chunks(last - first, rows_per_chunk, [&](std::int64_t begin, std::int64_t end) {
        float* part = parts + begin / rows_per_chunk * width;
        std::fill_n(part, width, 0.0F);
        for (auto t = first + begin; t < first + end; ++t) {
          const T* x = data<T>(x_TC) + t * width;
          for_lanes(width, [&](auto i, auto) { part[i] += static_cast<float>(x[i]); });
        }
      });
      combine(data<float>(out_C), first == 0 ? how : Accumulate::add, parts, width, n, width);
    });
  });
}

static double sum_of_squares(const ConstView& x, const View& scratch) {
  constexpr std::int64_t chunk = 16384;
  const auto n = x.count();
  const auto room = static_cast<std::int64_t>(scratch.span_bytes() / sizeof(double));
  double* parts = data<double>(scratch);
  double total = 0;
  by_type(x.dtype, "sum_squares", [&]<class T>(T) {
    const T* from = data<T>(x);
    for (std::int64_t first = 0; first < n; first += room * chunk) {
      const auto size = std::min(n - first, room * chunk);
      for_chunks(size, chunk, [&](std::int64_t begin, std::int64_t end) {
        Lanes<double> squares(0);
        const auto add = [&](const T* p, std::int64_t count) {
          for_lanes(count, [&](auto i, auto l) {
            const double v = static_cast<double>(static_cast<float>(p[i]));
            squares[l] += v * v;
          });
        };
        // Prefetches into the next page, where the CPU's own prefetching ends. A distance of 8 KiB
        // halved the rate of an Intel Xeon.
        constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T)), ahead = 32 * line;
        const T* p = from + first + begin;
        auto left = end - begin;
        for (; left >= block_size; left -= block_size, p += block_size) {
          for (std::int64_t i = 0; i < block_size; i += line) __builtin_prefetch(p + ahead + i);
          add(p, block_size);
        }
        add(p, left);
        parts[begin / chunk] = squares.sum();
      });
      for (std::int64_t k = 0; k < (size + chunk - 1) / chunk; ++k) total += parts[k];
    }
  });
  return total;
}

// Returns the sum of up to 16 squares. Each square is at most 2^122, so the sum needs no cap.
static fixed::Int128 sum_of_few(const std::int64_t* x, std::int64_t n) {
  fixed::Int128 even = 0, odd = 0;  // two independent chains of additions
  std::int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    even += fixed::square_of(x[i]);
    odd += fixed::square_of(x[i + 1]);
  }
  return even + odd + (i < n ? fixed::square_of(x[i]) : 0);
}

static fixed::Int128 sum_of_squared_quanta(const ConstView& x, const View& scratch) {
  constexpr std::int64_t chunk = 16384;
  const auto n = x.count();
  const auto room = static_cast<std::int64_t>(scratch.span_bytes() / sizeof(fixed::Int128));
  auto* parts = data<fixed::Int128>(scratch);
  fixed::Int128 total = 0;
  for (std::int64_t first = 0; first < n; first += room * chunk) {
    const auto size = std::min(n - first, room * chunk);
    for_chunks(size, chunk, [&](std::int64_t begin, std::int64_t end) {
      fixed::Int128 sum = 0;
      constexpr std::int64_t few = 16;
      for (auto i = first + begin; i < first + end; i += few)
        sum = fixed::capped_sum(
            sum, sum_of_few(data<std::int64_t>(x) + i, std::min(few, first + end - i)));
      parts[begin / chunk] = sum;
    });
    for (std::int64_t k = 0; k < (size + chunk - 1) / chunk; ++k)
      total = fixed::capped_sum(total, parts[k]);
  }
  return total;
}

void run(const kernel::SumSquares& o, View scratch) {
  auto* out = data<double>(o.out_N);
  for (const auto& x : o.x)
    if (x.dtype == DType::i64)
      out = std::ranges::copy(fixed::to_limbs(sum_of_squared_quanta(x, scratch)), out).out;
    else
      *out++ = sum_of_squares(x, scratch);
}

}  // namespace trireme::host
