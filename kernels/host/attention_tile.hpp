#pragma once
// Code shared by the forward and backward passes of attention. Queries and keys are divided into
// tiles of `edge` rows. A tile is copied into dense f32 scratch whose row length E is the head dim
// rounded up to whole vectors. Scores are stored transposed, s[key][query], so that sums and maxima
// over keys are computed lane by lane.
//
// i is the index of a query tile, and j is the index of a key tile. `ahead` is the position of a
// tile's first query minus the position of a tile's first key. Query r of the tile attends to key k
// if k <= ahead + r.
#include <array>

#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/tile_product.hpp"
#include "kernels/math/log.hpp"
#include "kernels/math/softcap.hpp"

namespace trireme::host {

inline constexpr std::int64_t edge = 64;
inline constexpr std::int64_t max_head_dim = 256;

// Maximum number of tiles of one head that a thread processes together.
inline constexpr std::int64_t most_at_once = 8;
// Returns how many tiles of one head a thread processes together, to share copies of the other
// operand. The number is between 1 and most_at_once. It is small if threads would otherwise be idle
// at the end.
inline std::int64_t tiles_at_once(std::int64_t tiles, std::int64_t heads) {
  const std::int64_t each = tiles * heads / (4 * threads());
  return std::clamp<std::int64_t>(each, 1, std::min(tiles, most_at_once));
}

// Sizes of one attention call. Query head h reads key/value head h * G / H.
struct Tiling {
  explicit Tiling(const AttentionShape& s)
      : shape(s),
        tiles((s.tokens + edge - 1) / edge),
        key_tiles((s.keys() + edge - 1) / edge),
        E(rounded_up(s.head_dim, lanes)) {}

  std::int64_t queries(std::int64_t i) const { return std::min(edge, shape.tokens - i * edge); }
  std::int64_t keys(std::int64_t j) const { return std::min(edge, shape.keys() - j * edge); }
  std::int64_t ahead(std::int64_t i, std::int64_t j) const {
    return shape.query_at + i * edge - shape.key_at - j * edge;
  }
  // Returns the number of key tiles, counted from the first, that the causal mask lets query tile i
  // attend to.
  std::int64_t key_tiles_of(std::int64_t i) const {
    const auto keys = ahead(i, 0) + queries(i);
    return std::clamp<std::int64_t>((keys + edge - 1) / edge, 0, key_tiles);
  }
  // Returns the first query tile that may attend to key tile j.
  std::int64_t first_query_tile(std::int64_t j) const {
    return std::max<std::int64_t>(0, -ahead(0, j) / edge);
  }
  std::int64_t kv_head(std::int64_t h) const { return h * shape.kv_heads / shape.heads; }
  std::int64_t first_head(std::int64_t g) const {
    return (g * shape.heads + shape.kv_heads - 1) / shape.kv_heads;
  }

  AttentionShape shape;
  std::int64_t tiles, key_tiles, E;
};

// Allocator that divides a workspace into aligned arrays.
class Scratch {
 public:
  explicit Scratch(std::byte* data) {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    data_ = data + (alignment - at % alignment) % alignment;
  }
  float* floats(std::int64_t n) {
    auto* p = reinterpret_cast<float*>(data_);
    data_ += rounded_up(n, alignment / sizeof(float)) * sizeof(float);
    return p;
  }
  static constexpr std::int64_t alignment = 64;

 private:
  std::byte* data_;
};

// Returns a pointer to the elements of head h at sample b and token t.
template <class T, class V>
inline auto rows_of(const V& v_BTHD, std::int64_t b, std::int64_t t, std::int64_t h) {
  using Element =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(v_BTHD.data)>>, const T, T>;
  const auto& s = v_BTHD.stride;
  return reinterpret_cast<Element*>(v_BTHD.data) + b * s[0] + t * s[1] + h * s[2];
}

// Copies `rows` rows of D elements into rows of E floats: to[r][0..D) = from[r][0..D), to[r][D..E)
// = 0. Writes rows * E floats. `stride` is the distance of source rows in elements.
template <class T>
inline void load_rows(float* to, const T* from, std::int64_t stride, std::int64_t rows,
                      std::int64_t D, std::int64_t E) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* line = to + r * E;
    const T* source = from + r * stride;
    std::int64_t d = 0;
    for (; d + lanes <= D; d += lanes) store(line + d, load(source + d));
    for (; d < D; ++d) line[d] = static_cast<float>(source[d]);
    for (; d < E; ++d) line[d] = 0;
  }
}

// Calls load_rows and then appends rows of zeros up to a multiple of the vector length. Writes
// rounded_up(rows, lanes) * E floats.
template <class T>
inline void load_tile(float* to, const T* from, std::int64_t stride, std::int64_t rows,
                      std::int64_t D, std::int64_t E) {
  load_rows(to, from, stride, rows, D, E);
  std::fill(to + rows * E, to + rounded_up(rows, lanes) * E, 0.0F);
}

// Computes to[d] = from[d] * factor for d < D.
template <class T>
inline void store_row(T* to, const float* from, std::int64_t D, float factor) {
  std::int64_t d = 0;
  for (; d + lanes <= D; d += lanes) store(to + d, load(from + d) * factor);
  for (; d < D; ++d) to[d] = static_cast<T>(from[d] * factor);
}

template <class T>
inline void store_tile(T* to, std::int64_t stride, const float* from, std::int64_t rows,
                       std::int64_t D, std::int64_t E) {
  for (std::int64_t r = 0; r < rows; ++r) store_row(to + r * stride, from + r * E, D, 1.0F);
}

// Transposes a tile: to[e][r] = from[r][e] * factor for r < `rows`, rounded up to whole vectors.
// The rows of `to` are `edge` floats long.
template <class T>
inline void transpose_tile(float* to, const T* from, std::int64_t stride, std::int64_t rows,
                           std::int64_t E, float factor) {
  for (std::int64_t r = 0; r < rows; r += lanes) {
    for (std::int64_t e = 0; e < E; e += lanes) {
      transpose(to + e * edge + r, edge, from + r * stride + e, stride, factor);
    }
  }
}

// Does the work of load_tile() and transpose_tile() in one pass over the source. If rows or columns
// are not whole vectors, the function uses the scratch tile `spare`.
template <class T>
inline void load_transposed(float* to, const T* from, std::int64_t stride, std::int64_t rows,
                            std::int64_t D, std::int64_t E, float factor, float* spare) {
  if (rows % lanes != 0 || D != E) {
    load_tile(spare, from, stride, rows, D, E);
    return transpose_tile(to, spare, E, rows, E, factor);
  }
  transpose_tile(to, from, stride, rows, E, factor);
}

// For each query of a tile, the index of the first key that its document and window allow, counted
// from the call's first key. The index is -1 if that key lies before the call's keys. The indices
// never decrease.
struct FirstKeys {
  FirstKeys() = default;
  FirstKeys(const AttentionShape& s, const ConstView& start_BT, std::int64_t b, std::int64_t at,
            std::int64_t queries)
      : key{} {
    if (!start_BT && s.window == 0) return;
    const auto* const row = start_BT ? reinterpret_cast<const std::int32_t*>(start_BT.data) +
                                           b * start_BT.stride[0] + at * start_BT.stride[1]
                                     : nullptr;
    for (std::int64_t r = 0; r < edge; ++r) {
      const auto own = std::min(r, queries - 1);
      auto first = row ? std::int64_t{row[own * start_BT.stride[1]]} : 0;
      if (s.window > 0) first = std::max(first, s.query_at + at + own + 1 - s.window);
      key[static_cast<std::size_t>(r)] =
          static_cast<std::int32_t>(std::max<std::int64_t>(first - s.key_at, -1));
    }
  }
  // Returns the first key tile that any of the queries attends to.
  std::int64_t tile() const { return std::max(key[0], 0) / edge; }

  std::array<std::int32_t, edge> key;
};

// The part of key tile j that query tile i may attend to. The first `skip` keys of the tile are
// masked for all queries, and key indices count from the key after them. Only the first `queries`
// queries of the tile attend to any key of the tile.
struct Pair {
  Pair(const Tiling& t, const FirstKeys& f, std::int64_t i, std::int64_t j) {
    const auto at = j * edge;
    skip = std::clamp<std::int64_t>(f.key[0] - at, 0, edge) / block_rows * block_rows;
    keys = std::max<std::int64_t>(t.keys(j) - skip, 0);
    queries = std::min(t.queries(i), std::ranges::lower_bound(f.key, at + edge) - f.key.begin());
    ahead = t.ahead(i, j) - skip;
    begin = static_cast<std::int32_t>(at + skip);
    first = f.key.back() > begin ? f.key.data() : nullptr;
  }

  // Returns the range of queries that a product sums over for the block of keys that begins at
  // `key`.
  Part queries_of(std::int64_t key) const { return {first_query(key), queries, 0}; }
  // Returns the range of keys that a product sums over for the block of queries that begins at
  // `query`.
  Part keys_of(std::int64_t query) const {
    return {0, std::clamp<std::int64_t>(ahead + query + block_rows, 0, keys), 0};
  }

  // Computes s[key][query] = k[key] . x[query] from xT[d][query]. Computes only the elements that
  // the causal mask allows, rounded up to whole blocks.
  void score(float* s, const float* k, const float* xT, const Tiling& t) const {
    product(s, edge, Accumulate::overwrite, Rows{k + skip * t.E, t.E}, xT, edge, keys, queries,
            [&](std::int64_t key) {
              return Part{0, t.shape.head_dim, first_query(key)};
            });
  }

  // Calls body(key, seen) for each key that some query in the vector [column, column + lanes) may
  // attend to, rounded up to whole blocks. The lanes of `seen` are 0 if the key is masked and all
  // ones otherwise.
  template <class Body>
  void for_keys(std::int64_t column, const Body& body) const {
    const auto open = std::clamp<std::int64_t>(ahead + column, 0, keys);
    const auto all =
        std::clamp<std::int64_t>(rounded_up(ahead + column + lanes, block_rows), 0, keys);
    const VecInt last = counted_from(column + std::clamp<std::int64_t>(ahead, -2 * edge, 2 * edge));
    if (first) {
      VecInt from;
      std::memcpy(&from, first + column, sizeof from);
      from -= begin;
      for (std::int64_t key = 0; key < all; ++key) {
        const auto k = static_cast<std::int32_t>(key);
        body(key, (from <= k) & (last >= k));
      }
      return;
    }
    for (std::int64_t key = 0; key < open; ++key) body(key, VecInt{} - 1);
    for (auto key = open; key < all; ++key) body(key, last >= static_cast<std::int32_t>(key));
  }

  std::int64_t skip, keys, queries;
  std::int64_t ahead;  // the first query sees the keys up to this one

 private:
  std::int64_t first_query(std::int64_t key) const {
    return std::clamp<std::int64_t>(key - ahead, 0, edge);
  }

  const std::int32_t* first;  // first visible key of each query; null means causality alone
  std::int32_t begin;         // index of the first counted key in the call
};

// Applies the soft cap to n scores in place. The scores must have been multiplied by log2(e).
// `softcap` must not.
inline void cap_scores(float* s, std::int64_t n, double softcap) {
  const float cap = static_cast<float>(softcap) * log2_e;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) s[i] = math::capped(s[i], cap);
}
// Applies the soft cap to the part of a tile that `of` describes. The values of masked scores are
// unspecified.
inline void cap_scores(float* s, const Pair& of, double softcap) {
  for (std::int64_t key = 0; key < of.keys; ++key)
    cap_scores(s + key * edge, rounded_up(of.queries, lanes), softcap);
}

// Softmax computed from the running maximum `max` and the sum of exponentials relative to it. With
// a sink, exp(sink) is added to the sum. `lse` is the log of the sum. The kernel multiplies a
// result by `factor` to divide it by the sum.
struct Softmax {
  Softmax(float max, float sum) : lse(max + math::log(sum)), factor(1 / sum) {}
  Softmax(float max, float sum, float sink) {
    const float most = std::max(max, sink);
    const float kept = exp2_below(Vec{} + (max - most) * log2_e)[0];
    const float all = sum * kept + exp2_below(Vec{} + (sink - most) * log2_e)[0];
    lse = most + math::log(all);
    factor = kept / all;
  }
  float lse, factor;
};
// Returns the softmax of head h, with the head's sink if sink_H is present.
template <class T>
inline Softmax softmax_of(float max, float sum, const ConstView& sink_H, std::int64_t h) {
  if (!sink_H) return {max, sum};
  const auto* const sinks = reinterpret_cast<const T*>(sink_H.data);
  return {max, sum, static_cast<float>(sinks[h * sink_H.stride[0]])};
}

// Returns the sizes of the workspace and state that a backward call needs.
AttentionBytes attention_grad_bytes(const Tiling&);

// Memory that the caller provides for a call. `state` must be present if keys come in pieces.
struct Lent {
  View workspace, state;
  Piece piece;
};
// Throws Error, with a message that names the operand, if shapes, types, strides or the provided
// memory are wrong.
void check_attention(const AttentionShape&, std::initializer_list<ConstView> query_side,
                     std::initializer_list<ConstView> key_side, const ConstView& lse, const Lent&,
                     const ConstView& start_BT, Direction);

}  // namespace trireme::host
