#pragma once
// Operations of causal attention. operations.hpp explains the letters of shapes. For k and v, T is
// the number of keys, which may differ from the number of queries.
#include <algorithm>

#include "kernels/operation.hpp"

namespace trireme {

// Sizes and positions of one attention call. The `tokens` queries have consecutive positions from
// `query_at`. The keys have consecutive positions from `key_at`.
struct AttentionShape {
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  double scale;
  // Number of most recent keys that a query attends to, including its own key. 0 means no limit.
  std::int64_t window = 0;
  std::int64_t key_count = 0;  // 0 means `tokens`
  std::int64_t query_at = 0, key_at = 0;
  bool documents = false;  // the call has start_BT
  double softcap = 0;      // c > 0 replaces scores s by c tanh(s / c)

  std::int64_t keys() const { return key_count > 0 ? key_count : tokens; }
};

// Sizes in bytes of the memory that the caller must provide for an attention call. `workspace` is
// scratch. `state` stores partial results between pieces of keys.
struct AttentionBytes {
  std::size_t workspace = 0, state = 0;
};

// Returns the number of (query, key) pairs in which the query attends to the key. The count is the
// area under the causal mask: T queries on their own T keys give T^2 / 2.
inline double pairs_seen(const AttentionShape& s) {
  const auto keys = static_cast<double>(s.keys()), queries = static_cast<double>(s.tokens);
  // Returns the number of pairs of all queries before query x if the first key has position 0.
  const auto before = [&](double x) {
    const double inside = std::clamp(x, 0.0, keys);
    return inside * inside / 2 + keys * (std::max(x, keys) - keys);
  };
  const auto seen = [&](double first) { return before(first + queries) - before(first); };
  const auto first = static_cast<double>(s.query_at - s.key_at);
  return seen(first) - (s.window > 0 ? seen(first - static_cast<double>(s.window)) : 0);
}

// Returns the number of floating-point operations in one call. For each pair and head, the forward
// pass has two products over head_dim. The backward pass has five, because it recomputes the
// probabilities.
inline double attention_flops(const AttentionShape& s, Direction d) {
  const double forward = 4.0 * static_cast<double>(s.batch * s.heads * s.head_dim) * pairs_seen(s);
  return d == Direction::forward ? forward : 2.5 * forward;
}

// Selects which part of the keys one attention call receives. The keys and values of a context may
// arrive in pieces, with one call for each piece in ascending order. Between the calls, `state`
// holds the partial results of the queries. If each piece begins at a multiple of
// BackendProperties::key_tile, the results have the same bits as a single call over all keys. The
// exception is bf16 on cuda, where tensor cores add up each piece in tiles of its own and cuDNN
// rounds the result of each piece.
enum class Piece : std::uint8_t { all, first, next, last };
constexpr bool begins_keys(Piece p) {
  return p == Piece::all || p == Piece::first;
}
constexpr bool ends_keys(Piece p) {
  return p == Piece::all || p == Piece::last;
}

namespace kernel {

// Computes o = softmax(s) v with the scores s = scale q k', or s = c tanh(scale q k' / c) with a
// soft cap c. A query attends to the keys up to its own position or, if `window` is positive, to
// the last `window` of these keys. Query head h reads key/value head h * G / H. The views are
// strided: only their last dim must be dense.
//
// lse is the log of the softmax's denominator, which the backward pass reads. The call with the
// last piece writes o and lse. Each query must attend to at least one key in some piece.
//
// `start_BT` (i32) restricts attention to documents: query t attends only to keys start(t) to t,
// where start(t) is the position at which its document begins. The values of a row never decrease,
// and start(t) <= t. flops() ignores `start_BT`.
//
// Keys and values that a query does not see have no effect on its results. The exception is bf16 on
// cuda: tensor cores multiply the values by 0, so that a NaN or an infinity among them becomes a
// NaN.
//
// `sink_H` adds exp(sink(h)) to the softmax's denominator of head h (Xiao et al. 2023; learned as
// in OpenAI's gpt-oss).
//
// `workspace` and, if keys come in pieces, `state` have the sizes that Backend::attention_bytes
// returns. A view whose size would be 0 is absent.
struct Attention {
  static constexpr std::string_view name = "attention";
  View o_BTHD{}, lse_BHT{};
  ConstView q_BTHD, k_BTGD, v_BTGD;
  AttentionShape shape;
  View workspace{};
  ConstView start_BT{};
  Piece piece = Piece::all;
  View state{};
  ConstView sink_H{};
  static void operands(auto& o, auto&& f) {
    const auto need = ends_keys(o.piece) ? Need::must : Need::may;
    result(f, Accumulate::overwrite, o.o_BTHD, need);
    result(f, Accumulate::overwrite, o.lse_BHT, need);
    read(f, o.q_BTHD, o.k_BTGD, o.v_BTGD);
    may_scratch(f, o.workspace);
    may_read(f, o.start_BT, o.sink_H);
    f(o.state, begins_keys(o.piece) ? Role::scratch : Role::add, Need::may);
  }
  double flops() const { return attention_flops(shape, Direction::forward); }
};

// Backward pass of Attention for the queries and one piece of keys. The call with the last piece
// writes dq. Each call overwrites dk and dv of its own keys, or adds to them if `keys` is
// Accumulate::add. dk and dv have the compute type, the wide type or i64. As i64 they count units
// of 2^-shift gradient quanta (lib/base/fixed.hpp): the sum over the queries of one call is rounded
// once.
struct AttentionGrad {
  static constexpr std::string_view name = "attention_grad";
  View dq_BTHD{}, dk_BTGD, dv_BTGD;
  ConstView do_BTHD, o_BTHD, lse_BHT, q_BTHD, k_BTGD, v_BTGD;
  AttentionShape shape;
  View workspace{};
  ConstView start_BT{};
  Piece piece = Piece::all;
  View state{};
  Accumulate keys = Accumulate::overwrite;
  int shift = 0;
  View largest{};
  static void operands(auto& o, auto&& f) {
    result(f, Accumulate::overwrite, o.dq_BTHD, ends_keys(o.piece) ? Need::must : Need::may);
    result(f, o.keys, o.dk_BTGD);
    result(f, o.keys, o.dv_BTGD);
    read(f, o.do_BTHD, o.o_BTHD, o.lse_BHT, o.q_BTHD, o.k_BTGD, o.v_BTGD);
    may_scratch(f, o.workspace);
    may_read(f, o.start_BT);
    f(o.state, begins_keys(o.piece) ? Role::scratch : Role::add, Need::may);
    may_result(f, Accumulate::add, o.largest);
  }
  double flops() const { return attention_flops(shape, Direction::backward); }
};

// Gradient of the attention sinks, from the results of Attention: dsink(h) = - sum over b and t of
// exp(sink(h) - lse(b, h, t)) do(b, t, h).o(b, t, h), in the wide type. All views except the sinks
// may be strided.
struct SinkGrad {
  static constexpr std::string_view name = "sink_grad";
  View dsink_H;
  Accumulate how = Accumulate::overwrite;
  ConstView do_BTHD, o_BTHD, lse_BHT, sink_H;
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.dsink_H);
    read(f, o.do_BTHD, o.o_BTHD, o.lse_BHT, o.sink_H);
  }
};

// Attention of T new positions of one sample whose earlier keys and values are cached. The rows of
// k and v are stored in the caches as positions at, at + 1 and so on. Each query attends to the
// positions up to its own, with sinks, window and soft cap as in Attention.
//
// Position p is stored in row p % P of a cache. P must be at least at + T. With a window, P may
// instead be a multiple of BackendProperties::key_tile that is at least window + T - 1. Other rows
// of the caches do not change. The views are strided: only their last dim must be dense. The bits
// of a result depend only on the result's head and position.
struct CachedAttention {
  static constexpr std::string_view name = "cached_attention";
  View o_THD, k_cache_PGD, v_cache_PGD;
  ConstView q_THD, k_TGD, v_TGD;
  std::int64_t at = 0;
  double scale = 1;
  std::int64_t window = 0;
  ConstView sink_H{};
  double softcap = 0;
  static void operands(auto& o, auto&& f) {
    write(f, o.o_THD);
    add(f, o.k_cache_PGD, o.v_cache_PGD);
    read(f, o.q_THD, o.k_TGD, o.v_TGD);
    may_read(f, o.sink_H);
  }
  // Returns the number of positions that at least one query sees.
  std::int64_t positions() const {
    const auto all = at + q_THD.extent[0];
    return window > 0 ? std::min(all, window - 1 + q_THD.extent[0]) : all;
  }
  // Returns true if the cache has enough rows for this call. `tile` is BackendProperties::key_tile.
  bool fits(const ConstView& cache_PGD, std::int64_t tile) const {
    const auto P = cache_PGD.extent[0];
    return P >= at + q_THD.extent[0] || (P >= positions() && P % tile == 0);
  }
  double seen() const { return static_cast<double>(positions()); }
  double bytes() const {
    const double row = static_cast<double>(k_TGD.extent[1] * k_TGD.extent[2]);
    return 2 * bytes_seen(o_THD) + 2 * bytes_seen(k_TGD) +
           2 * seen() * row * static_cast<double>(bytes_of(k_TGD.dtype));
  }
  double flops() const { return 4 * static_cast<double>(q_THD.count()) * seen(); }
};

}  // namespace kernel
}  // namespace trireme
