// Attention of each query to all keys up to its own. Keys are processed 64 at a time with a running
// maximum and sum, like the tiles of attention.cpp. Most of the time is needed to read keys and
// values once from memory. A unit of work is one query head at one position.
#include <algorithm>
#include <limits>

#include "kernels/host/attention_tile.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

// Keys or values of `rows` positions as f32 rows of whole vectors. The data is the cache itself, or
// a copy.
struct Rows64 {
  const float* data;
  std::int64_t stride;
};

template <class T>
Rows64 rows_at(const View& cache_PGD, std::int64_t g, std::int64_t first, std::int64_t rows,
               std::int64_t E, float* copy) {
  const auto D = cache_PGD.extent[2];
  const auto* from = reinterpret_cast<const T*>(cache_PGD.data) + first * cache_PGD.stride[0] +
                     g * cache_PGD.stride[1];
  if constexpr (std::is_same_v<T, float>)
    if (D == E) return {from, cache_PGD.stride[0]};
  load_rows(copy, from, cache_PGD.stride[0], rows, D, E);
  return {copy, E};
}

// Computes s[j] = q . row j for whole vectors of rows. Elements after the last row repeat the last
// row's score.
void scores(float* s, const float* q, const Rows64& k, std::int64_t rows, std::int64_t E) {
  for (std::int64_t first = 0; first < rows; first += lanes) {
    std::array<Vec, lanes> sum{};
    std::array<const float*, lanes> row;
    for (std::int64_t l = 0; l < lanes; ++l)
      row[static_cast<std::size_t>(l)] = k.data + std::min(first + l, rows - 1) * k.stride;
    for (std::int64_t e = 0; e < E; e += lanes) {
      const Vec x = load(q + e);
#pragma GCC unroll 16
      for (std::size_t l = 0; l < lanes; ++l) sum[l] += x * load(row[l] + e);
    }
    store(s + first, sums(sum));
  }
}

// Computes o = o * shrink + sum over rows of p[j] v[j].
void add_values(float* o, float shrink, const float* p, const Rows64& v, std::int64_t rows,
                std::int64_t E) {
  constexpr std::int64_t wide = 4;  // independent chains of FMAs
  for (std::int64_t e = 0; e < E; e += wide * lanes) {
    const auto n = std::min<std::int64_t>(wide, (E - e) / lanes);
    std::array<Vec, wide> sum{};
    for (std::int64_t c = 0; c < n; ++c)
      sum[static_cast<std::size_t>(c)] = load(o + e + c * lanes) * shrink;
    if (n == wide) {
      for (std::int64_t j = 0; j < rows; ++j) {
        const float* row = v.data + j * v.stride + e;
#pragma GCC unroll 4
        for (std::int64_t c = 0; c < wide; ++c)
          sum[static_cast<std::size_t>(c)] += p[j] * load(row + c * lanes);
      }
    } else {
      for (std::int64_t j = 0; j < rows; ++j)
        for (std::int64_t c = 0; c < n; ++c)
          sum[static_cast<std::size_t>(c)] += p[j] * load(v.data + j * v.stride + e + c * lanes);
    }
    for (std::int64_t c = 0; c < n; ++c) store(o + e + c * lanes, sum[static_cast<std::size_t>(c)]);
  }
}

float largest_of(const float* s, std::int64_t n, float m) {
  for (std::int64_t j = 0; j < n; ++j) m = std::max(m, s[j]);
  return m;
}

template <class T>
void query(const kernel::CachedAttention& a, std::int64_t t, std::int64_t h) {
  alignas(64) float q[max_head_dim], o[max_head_dim], s[edge], copy[edge * max_head_dim];
  const auto H = a.q_THD.extent[1], D = a.q_THD.extent[2], G = a.k_TGD.extent[1];
  const auto E = rounded_up(D, lanes), g = h * G / H, keys = a.at + t + 1;
  const auto seen = a.window > 0 ? std::max<std::int64_t>(0, keys - a.window) : 0;
  load_rows(
      q, reinterpret_cast<const T*>(a.q_THD.data) + t * a.q_THD.stride[0] + h * a.q_THD.stride[1],
      D, 1, D, E);
  for (std::int64_t e = 0; e < E; ++e) q[e] *= static_cast<float>(a.scale) * log2_e;
  std::fill_n(o, E, 0.0F);
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  // The keys of a tile are adjacent in the cache. If positions wrap around, the number of rows in
  // the cache is a multiple of the tile.
  for (auto first = seen; first < keys; first += edge - first % edge) {
    const auto n = std::min(edge - first % edge, keys - first), whole = rounded_up(n, lanes);
    const auto at = first % a.k_cache_PGD.extent[0];
    scores(s, q, rows_at<T>(a.k_cache_PGD, g, at, n, E, copy), n, E);
    if (a.softcap > 0) cap_scores(s, whole, a.softcap);
    const float before = std::exchange(max, largest_of(s, n, max));
    const float shrink = first == seen ? 0.0F : exp2_below(Vec{} + (before - max))[0];
    for (std::int64_t j = 0; j < whole; j += lanes) store(s + j, exp2_below(load(s + j) - max));
    std::fill(s + n, s + whole, 0.0F);
    float total = 0;
    for (std::int64_t j = 0; j < n; ++j) total += s[j];
    sum = sum * shrink + total;
    add_values(o, shrink, s, rows_at<T>(a.v_cache_PGD, g, at, n, E, copy), n, E);
  }
  store_row(reinterpret_cast<T*>(a.o_THD.data) + t * a.o_THD.stride[0] + h * a.o_THD.stride[1], o,
            D, softmax_of<T>(max * ln_2, sum, a.sink_H, h).factor);
}

template <class T>
void append(const View& cache_PGD, const ConstView& x_TGD, std::int64_t at) {
  for (std::int64_t t = 0; t < x_TGD.extent[0]; ++t)
    for (std::int64_t g = 0; g < x_TGD.extent[1]; ++g)
      std::copy_n(
          reinterpret_cast<const T*>(x_TGD.data) + t * x_TGD.stride[0] + g * x_TGD.stride[1],
          x_TGD.extent[2],
          reinterpret_cast<T*>(cache_PGD.data) +
              (at + t) % cache_PGD.extent[0] * cache_PGD.stride[0] + g * cache_PGD.stride[1]);
}

template <class T>
void attend(const kernel::CachedAttention& a) {
  append<T>(a.k_cache_PGD, a.k_TGD, a.at);
  append<T>(a.v_cache_PGD, a.v_TGD, a.at);
  const auto H = a.q_THD.extent[1], units = a.q_THD.extent[0] * H;
  // A chunk has enough heads to be worth a thread. Its size depends only on the sizes of the
  // operands.
  const auto row = a.positions() * a.q_THD.extent[2];
  for_chunks(units, std::max<std::int64_t>(1, grain / row),
             [&](std::int64_t begin, std::int64_t end) {
               for (auto u = begin; u < end; ++u) query<T>(a, u / H, u % H);
             });
}

void check(const kernel::CachedAttention& a) {
  const auto T = a.q_THD.extent[0], H = a.q_THD.extent[1], D = a.q_THD.extent[2],
             G = a.k_TGD.extent[1];
  require(D >= 1 && D <= max_head_dim,
          "cached_attention: a head dim of {} is not supported; use 1 to {}", D, max_head_dim);
  const auto is = [&](const ConstView& v, std::int64_t rows, std::int64_t heads) {
    require(v.dims == 3 && v.extent[0] >= rows && v.extent[1] == heads && v.extent[2] == D &&
                (v.stride[2] == 1 || D == 1) && v.dtype == a.q_THD.dtype,
            "cached_attention: an operand {} [{}, {}, {}] is not {} [{}, {}, {}] with a dense last "
            "dim",
            name_of(v.dtype), v.extent[0], v.extent[1], v.extent[2], name_of(a.q_THD.dtype), rows,
            heads, D);
  };
  require(a.at >= 0 && G >= 1 && G <= H, "cached_attention: position {}, {}/{} heads", a.at, H, G);
  for (const ConstView& v : {ConstView(a.o_THD), a.q_THD}) is(v, T, H);
  for (const ConstView& v : {a.k_TGD, a.v_TGD}) is(v, T, G);
  for (const ConstView& v : {ConstView(a.k_cache_PGD), ConstView(a.v_cache_PGD)}) is(v, 1, G);
  require(
      a.fits(a.k_cache_PGD, edge) && ConstView(a.v_cache_PGD).extent[0] == a.k_cache_PGD.extent[0],
      "cached_attention: positions {} to {} do not fit in {} rows", a.at, a.at + T - 1,
      a.k_cache_PGD.extent[0]);
}

}  // namespace

void run(const kernel::CachedAttention& o, View) {
  check(o);
  if (o.q_THD.dtype == DType::bf16)
    attend<bf16>(o);
  else if (o.q_THD.dtype == DType::f32)
    attend<float>(o);
  else
    fail(
        "cached_attention: {} is not computed on this backend; use f32 or bf16, or the ref "
        "backend",
        name_of(o.q_THD.dtype));
}

}  // namespace trireme::host
