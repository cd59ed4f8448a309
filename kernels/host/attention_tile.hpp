#pragma once
// What attention's forward and backward share. Queries and keys are cut into tiles of `edge` rows,
// copied into dense f32 scratch whose row length is the head dim rounded up to whole vectors (E).
// Scores are kept transposed, s[key][query]: sums and maxima over keys then run lane by lane.
// i stands for a query tile, j for a key tile of the call. What a query tile sees of a key tile
// follows from `ahead`: how far its first query is behind the first key in the context, so that
// query r sees key k where k <= ahead + r.
#include <array>

#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/tile_product.hpp"
#include "kernels/math/log.hpp"
#include "kernels/math/softcap.hpp"

namespace trireme::host {

inline constexpr std::int64_t edge = 64;
inline constexpr std::int64_t max_head_dim = 256;

// Of the tiles of each of several heads, how many are taken at once and share copies: few where
// threads would wait for the last ones.
inline constexpr std::int64_t most_at_once = 8;
inline std::int64_t tiles_at_once(std::int64_t tiles, std::int64_t heads) {
  const std::int64_t each = tiles * heads / (4 * threads());
  return std::clamp<std::int64_t>(each, 1, std::min(tiles, most_at_once));
}

// The sizes of one call. Query head h reads key/value head h * G / H.
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
  // The end of the key tiles that query tile i sees; the first query tile that sees key tile j.
  std::int64_t key_tiles_of(std::int64_t i) const {
    const auto keys = ahead(i, 0) + queries(i);
    return std::clamp<std::int64_t>((keys + edge - 1) / edge, 0, key_tiles);
  }
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

// Hands out aligned pieces of a workspace.
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

template <class T, class V>
inline auto rows_of(const V& v_BTHD, std::int64_t b, std::int64_t t, std::int64_t h) {
  using Element =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(v_BTHD.data)>>, const T, T>;
  const auto& s = v_BTHD.stride;
  return reinterpret_cast<Element*>(v_BTHD.data) + b * s[0] + t * s[1] + h * s[2];
}

// to[r][0..D) = from[r][0..D) and to[r][D..E) = 0 for `rows` rows. Writes rows * E floats.
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

// The same, followed by zero rows up to a whole vector of rows. Writes rounded_up(rows, lanes) * E
// floats.
template <class T>
inline void load_tile(float* to, const T* from, std::int64_t stride, std::int64_t rows,
                      std::int64_t D, std::int64_t E) {
  load_rows(to, from, stride, rows, D, E);
  std::fill(to + rows * E, to + rounded_up(rows, lanes) * E, 0.0F);
}

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

// to[e][r] = from[r][e] * factor, r < rows rounded up to whole vectors; rows of `to` are `edge`
// long.
template <class T>
inline void transpose_tile(float* to, const T* from, std::int64_t stride, std::int64_t rows,
                           std::int64_t E, float factor) {
  for (std::int64_t r = 0; r < rows; r += lanes) {
    for (std::int64_t e = 0; e < E; e += lanes) {
      transpose(to + e * edge + r, edge, from + r * stride + e, stride, factor);
    }
  }
}

// The same straight from the source; `spare` is a tile for rows that are not whole vectors.
template <class T>
inline void load_transposed(float* to, const T* from, std::int64_t stride, std::int64_t rows,
                            std::int64_t D, std::int64_t E, float factor, float* spare) {
  if (rows % lanes != 0 || D != E) {
    load_tile(spare, from, stride, rows, D, E);
    return transpose_tile(to, spare, E, rows, E, factor);
  }
  transpose_tile(to, from, stride, rows, E, factor);
}

// Where the keys that the queries of a tile see begin, counted from the call's first key: where
// their documents and windows do, or before it. They never fall.
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
  // The first key tile that any query sees.
  std::int64_t tile() const { return std::max(key[0], 0) / edge; }

  std::array<std::int32_t, edge> key;
};

// What query tile i sees of key tile j: keys from `skip` on, as those before are hidden from all,
// and by the first `queries` queries, as those behind see none. Keys are counted from `skip`.
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

  // What a product over queries has for a block of keys, and one over keys for a block of queries.
  Part queries_of(std::int64_t key) const { return {first_query(key), queries, 0}; }
  Part keys_of(std::int64_t query) const {
    return {0, std::clamp<std::int64_t>(ahead + query + block_rows, 0, keys), 0};
  }

  // s[key][query] = k[key] . x[query] from xT[d][query]. Only what causality leaves, by whole
  // blocks.
  void score(float* s, const float* k, const float* xT, const Tiling& t) const {
    product(s, edge, Accumulate::overwrite, Rows{k + skip * t.E, t.E}, xT, edge, keys, queries,
            [&](std::int64_t key) {
              return Part{0, t.shape.head_dim, first_query(key)};
            });
  }

  // body(key, seen) for the keys that a vector of queries from `column` on may see, in whole
  // blocks; lanes of `seen` are 0 where the key is hidden.
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
  std::int64_t ahead;  // the first query sees keys up to that one

 private:
  std::int64_t first_query(std::int64_t key) const {
    return std::clamp<std::int64_t>(key - ahead, 0, edge);
  }

  const std::int32_t* first;  // null: none is hidden for being before a query's first
  std::int32_t begin;         // of the keys among the call's
};

// n scores in bits, under a soft cap of scores that are not.
inline void cap_scores(float* s, std::int64_t n, double softcap) {
  const float cap = static_cast<float>(softcap) * log2_e;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) s[i] = math::capped(s[i], cap);
}
// Rows of a tile that a pair has; what is hidden in them is not read.
inline void cap_scores(float* s, const Pair& of, double softcap) {
  for (std::int64_t key = 0; key < of.keys; ++key)
    cap_scores(s + key * edge, rounded_up(of.queries, lanes), softcap);
}

// With `sum` exponentials below `max` and the sink's: the log of all, and what results that lack
// the division are multiplied with.
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
// Of head h.
template <class T>
inline Softmax softmax_of(float max, float sum, const ConstView& sink_H, std::int64_t h) {
  if (!sink_H) return {max, sum};
  const auto* const sinks = reinterpret_cast<const T*>(sink_H.data);
  return {max, sum, static_cast<float>(sinks[h * sink_H.stride[0]])};
}

AttentionBytes attention_grad_bytes(const Tiling&);

// What a call is lent; the state must be there where keys come in pieces.
struct Lent {
  View workspace, state;
  Piece piece;
};
// Throws Error naming what does not fit.
void check_attention(const AttentionShape&, std::initializer_list<ConstView> query_side,
                     std::initializer_list<ConstView> key_side, const ConstView& lse, const Lent&,
                     const ConstView& start_BT, Direction);

}  // namespace trireme::host
