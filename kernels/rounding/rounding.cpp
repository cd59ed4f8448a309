#include "kernels/rounding/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/rng.hpp"

namespace trireme {

namespace {

// Returns half a unit in the last place of 1 in the type in which results of type `t` are summed.
double roundoff(DType t) {
  return t == DType::f64 ? 0x1p-53 : 0x1p-24;
}

bool is_real(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f64;
}

double load(const std::byte* at, DType t) {
  switch (t) {
    case DType::f64:
      return *reinterpret_cast<const double*>(at);
    case DType::bf16:
      return static_cast<float>(*reinterpret_cast<const bf16*>(at));
    default:
      return *reinterpret_cast<const float*>(at);
  }
}

void store(std::byte* at, DType t, double x) {
  switch (t) {
    case DType::f64:
      *reinterpret_cast<double*>(at) = x;
      return;
    case DType::bf16:
      *reinterpret_cast<bf16*>(at) = bf16(static_cast<float>(x));
      return;
    default:
      *reinterpret_cast<float*>(at) = static_cast<float>(x);
  }
}

// Returns the distance from x to the next number of its type, for x in the normal range.
double unit_of(double x, DType t) {
  const int bits = t == DType::f64 ? 53 : t == DType::bf16 ? 8 : 24;
  return x == 0 ? 0 : std::ldexp(1.0, std::ilogb(x) + 1 - bits);
}

// Calls f(first element, row) for each row along the last dim. `row` is the flat index over all
// other dims.
template <class AnyView, class F>
void each_row(const AnyView& v, F f) {
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < v.dims; ++d) rows *= v.extent[static_cast<std::size_t>(d)];
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t left = row, at = 0;
    for (int d = v.dims - 1; d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      at += left % v.extent[i] * v.stride[i];
      left /= v.extent[i];
    }
    f(v.data + at * static_cast<std::int64_t>(bytes_of(v.dtype)), row);
  }
}

template <class AnyView>
std::int64_t last_extent(const AnyView& v) {
  return v.dims == 0 ? 1 : v.extent[static_cast<std::size_t>(v.dims - 1)];
}
template <class AnyView>
std::int64_t last_stride(const AnyView& v) {
  return v.dims == 0 ? 1
                     : v.stride[static_cast<std::size_t>(v.dims - 1)] *
                           static_cast<std::int64_t>(bytes_of(v.dtype));
}

double norm_of(const std::byte* at, DType t, std::int64_t n, std::int64_t stride) {
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i, at += stride) {
    const double x = load(at, t);
    squares += x * x;
  }
  return std::sqrt(squares);
}

// Returns the Euclidean norm of each row of a matrix.
std::vector<double> row_norms(const ConstView& m) {
  std::vector<double> norms;
  each_row(m, [&](const std::byte* at, std::int64_t) {
    norms.push_back(norm_of(at, m.dtype, last_extent(m), last_stride(m)));
  });
  return norms;
}

// Source of random perturbations. Each element of a result is perturbed by its own random numbers.
class Noise {
 public:
  explicit Noise(std::uint64_t key) : key_(key) {}

  // Perturbs every element of v. deviation(row, column) is the standard deviation of the rounding
  // error of the element's sum. The rounding of the element itself is added.
  template <class F>
  void perturb(const View& v, F deviation) {
    if (!v || !is_real(v.dtype)) return;
    const auto n = last_extent(v), stride = last_stride(v);
    each_row(v, [&](std::byte* at, std::int64_t row) {
      for (std::int64_t i = 0; i < n; ++i, at += stride)
        perturb_one(at, v.dtype, deviation(row, i));
    });
  }
  void each_alone(const View& v) {
    perturb(v, [](std::int64_t, std::int64_t) { return 0.0; });
  }
  // Perturbs the elements of v, which are sums. terms(row) is the number of terms in each element
  // of the row.
  template <class F>
  void sums(const View& v, F terms) {
    if (!v || !is_real(v.dtype)) return;
    const auto n = last_extent(v), stride = last_stride(v);
    each_row(v, [&](std::byte* at, std::int64_t row) {
      const double rms = norm_of(at, v.dtype, n, stride) / std::sqrt(static_cast<double>(n)),
                   deviation = roundoff(v.dtype) * std::sqrt(terms(row) / 6) * rms;
      for (std::int64_t i = 0; i < n; ++i, at += stride) perturb_one(at, v.dtype, deviation);
    });
  }
  void sums_of(const View& v, std::int64_t terms) {
    sums(v, [&](std::int64_t) { return static_cast<double>(terms); });
  }

 private:
  void perturb_one(std::byte* at, DType t, double deviation) {
    const double x = load(at, t);
    if (x == 0 || !std::isfinite(x)) return;
    const auto bits = mix64(key_ + count_++ * 0x9e3779b97f4a7c15ULL);
    // Two uniform random numbers: `before` lies in (-1/2, 1/2), and `spread` has variance 1.
    const auto half = [](std::uint64_t b) {
      return (static_cast<double>(b) + 0.5) * 0x1p-32 - 0.5;
    };
    const double before = half(bits >> 32), spread = std::sqrt(12.0) * half(bits & 0xffffffffU);
    const double own = roundoff(t) * std::fabs(x) / std::sqrt(3.0);
    const double shift =
        unit_of(x, t) * before + std::sqrt(deviation * deviation + own * own) * spread;
    store(at, t, x + shift);
  }

  std::uint64_t key_, count_ = 0;
};

// Perturbs each element of the results independently. The overloads below handle the operations
// that sum many terms, and those that are not perturbed.
template <class O>
void perturb(Noise& noise, const O& o) {
  auto copy = o;
  each_operand(copy, [&](auto& v, Role role) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, View>)
      if (role == Role::write || role == Role::add) noise.each_alone(v);
  });
}

void perturb(Noise& noise, const kernel::Copy& o) {
  if (o.how == Accumulate::add) noise.each_alone(o.dst);
}
void perturb(Noise&, const kernel::Fill&) {}
void perturb(Noise&, const kernel::AddFixed&) {}
void perturb(Noise&, const kernel::ReadFixed&) {}
void perturb(Noise&, const kernel::Dequantize&) {}  // has the same bits on every backend
void perturb(Noise&, const kernel::RoundToFp8&) {}
void perturb(Noise&, const kernel::LargestOfTiles&) {}
void perturb(Noise&, const kernel::ScalesOfTiles&) {}
void perturb(Noise&, const kernel::EncodeTiles&) {}
void perturb(Noise&, const kernel::DecodeTiles&) {}
void perturb(Noise& noise, const kernel::Fp8Matmul& o) {
  noise.sums_of(o.c_MN, o.a_MK.columns());
}
void perturb(Noise&, const kernel::Embedding&) {}
void perturb(Noise&, const kernel::Update&) {}
void perturb(Noise&, const kernel::Average&) {}
void perturb(Noise&, const kernel::SumSquares&) {}

// Standard deviation of the rounding error of each element of c = a b.
class ProductDeviation {
 public:
  ProductDeviation(DType c, const ConstView& a_MK, const ConstView& b_KN)
      : a(row_norms(a_MK)), b(row_norms(b_KN.transposed())), u(roundoff(c) / std::sqrt(6.0)) {}
  double operator()(std::int64_t m, std::int64_t n) const {
    return u * a[static_cast<std::size_t>(m)] * b[static_cast<std::size_t>(n)];
  }
  std::vector<double> a, b;  // norms of the rows of a and of the columns of b
  double u;
};

void perturb(Noise& noise, const kernel::Matmul& o) {
  if (!is_real(o.c_MN.dtype)) return;
  const ProductDeviation deviation(o.c_MN.dtype, o.a_MK, o.b_KN);
  noise.perturb(o.c_MN, deviation);
  noise.perturb(o.epilogue.activated_MN, deviation);  // the activation's slope is about 1 or less
  const double ones = std::sqrt(static_cast<double>(o.a_MK.extent[1]));
  noise.perturb(o.epilogue.row_sum_M, [&](std::int64_t, std::int64_t m) {
    return deviation.u * deviation.a[static_cast<std::size_t>(m)] * ones;
  });
}

// Calls f(expert, first row, number of rows) for each expert that has rows.
template <class F>
void each_group(const ConstView& offset_E1, F f) {
  const auto* offset = reinterpret_cast<const std::int32_t*>(offset_E1.data);
  for (std::size_t e = 0; e + 1 < static_cast<std::size_t>(offset_E1.count()); ++e)
    if (offset[e + 1] > offset[e]) f(e, offset[e], offset[e + 1] - offset[e]);
}

void perturb(Noise& noise, const kernel::GroupedMatmul& o) {
  each_group(o.offset_E1, [&](std::size_t e, std::int64_t begin, std::int64_t rows) {
    const View c = o.c_RN.slice(0, begin, rows);
    noise.perturb(c, ProductDeviation(c.dtype, o.a_RK.slice(0, begin, rows), o.b_KN[e]));
  });
}
void perturb(Noise& noise, const kernel::GroupedMatmulGrad& o) {
  each_group(o.offset_E1, [&](std::size_t e, std::int64_t begin, std::int64_t rows) {
    const View& c = o.c_MN[e];
    if (!c || !is_real(c.dtype)) return;
    noise.perturb(c, ProductDeviation(c.dtype, o.a_RM.slice(0, begin, rows).transposed(),
                                      o.b_RN.slice(0, begin, rows)));
  });
}
void perturb(Noise& noise, const kernel::GroupedBiasGrad& o) {
  noise.sums_of(o.dweight_R, last_extent(o.dy_RN));
  if (o.dbias_N.empty()) return;
  each_group(o.offset_E1, [&](std::size_t e, std::int64_t, std::int64_t rows) {
    noise.sums_of(o.dbias_N[e], rows);
  });
}
void perturb(Noise& noise, const kernel::SumRows& o) {
  noise.sums_of(o.y_TC, o.row_TK.extent[1] + 1);
}

void perturb(Noise& noise, const kernel::SwigluGrad& o) {
  noise.each_alone(o.dgate_up_T2F);
  noise.sums_of(o.dweight_T, last_extent(o.dy_TF));
}

// Returns the maximum number of keys, out of `all`, that a query attends to. The function also
// returns the maximum number of queries that attend to a key.
static std::int64_t at_most_a_window(const AttentionShape& s, std::int64_t all) {
  return s.window > 0 ? std::min(s.window, all) : all;
}
void perturb(Noise& noise, const kernel::Attention& o) {
  noise.sums_of(o.o_BTHD, at_most_a_window(o.shape, o.shape.keys()));
  noise.each_alone(o.lse_BHT);
}
void perturb(Noise& noise, const kernel::SinkGrad& o) {
  noise.sums_of(o.dsink_H, o.lse_BHT.extent[0] * o.lse_BHT.extent[2]);
}
void perturb(Noise& noise, const kernel::CachedAttention& o) {
  noise.sums_of(o.o_THD, o.positions());
}
void perturb(Noise& noise, const kernel::AttentionGrad& o) {
  noise.sums_of(o.dq_BTHD, at_most_a_window(o.shape, o.shape.keys()));
  for (const auto& v : {o.dk_BTGD, o.dv_BTGD})
    noise.sums_of(v, at_most_a_window(o.shape, o.shape.tokens));
}

void perturb(Noise& noise, const kernel::NormGrad& o) {
  noise.sums_of(o.dx_TC, last_extent(o.x_TC));
  for (const auto& v : {o.dw_C, o.db_C}) noise.sums_of(v, o.x_TC.extent[0]);
}

void perturb(Noise& noise, const kernel::ColumnSum& o) {
  noise.sums_of(o.out_C, o.x_TC.extent[0]);
}

void perturb(Noise& noise, const kernel::EmbeddingGrad& o) {
  std::vector<double> rows(static_cast<std::size_t>(o.dtable_VC.extent[0]), 0);
  for (std::int64_t t = 0; t < o.ids_T.extent[0]; ++t)
    ++rows[static_cast<std::size_t>(
        *reinterpret_cast<const std::int32_t*>(o.ids_T.data + t * o.ids_T.stride[0] * 4))];
  noise.sums(o.dtable_VC, [&](std::int64_t row) { return rows[static_cast<std::size_t>(row)]; });
}

// Perturbs losses. The loss of each row has its own rounding error, and the sum over rows is in
// f64.
void perturb_losses(Noise& noise, const View& losses, const ConstView& logits) {
  if (losses.dtype != DType::f64) return;
  const auto* sums = reinterpret_cast<const double*>(losses.data);
  const double u = roundoff(logits.dtype) /
                   std::sqrt(static_cast<double>(std::max<std::int64_t>(1, logits.extent[0])));
  noise.perturb(losses, [&](std::int64_t, std::int64_t i) { return u * std::fabs(sums[i]); });
}

void perturb(Noise& noise, const kernel::CrossEntropy& o) {
  if (o.logits == Logits::become_gradient) noise.each_alone(o.logits_TV);
  perturb_losses(noise, o.loss, o.logits_TV);
}
void perturb(Noise& noise, const kernel::RouterLosses& o) {
  perturb_losses(noise, o.sums, o.logits_TE);
}

}  // namespace

Rounding::Rounding(std::unique_ptr<Backend> inner, std::uint64_t seed)
    : inner_(std::move(inner)), seed_(seed) {
  require(inner_->host_readable(),
          "rounding can be varied only in host memory, not on the backend {}: use run.backend = "
          "\"host\"",
          inner_->name());
}

void Rounding::put(Queue q, const kernel::Operation& operation) {
  inner_->put(q, operation);
  Noise noise(hash64(seed_, operations_++));
  std::visit([&](const auto& o) { perturb(noise, o); }, operation);
}

}  // namespace trireme
