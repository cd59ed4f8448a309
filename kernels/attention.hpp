#pragma once
// Operations of causal attention. Shapes as in operations.hpp; T of k and v is that of their keys.
#include <algorithm>

#include "kernels/operation.hpp"

namespace trireme {

// `tokens` queries at positions query_at and on, and as many keys or key_count at key_at and on.
struct AttentionShape {
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  double scale;
  std::int64_t window = 0;     // keys that a query sees, up to its own; 0: all
  std::int64_t key_count = 0;  // 0: as many as queries
  std::int64_t query_at = 0, key_at = 0;
  bool documents = false;  // comes with start_BT
  double softcap = 0;      // c > 0: scores s become c tanh(s / c)

  std::int64_t keys() const { return key_count > 0 ? key_count : tokens; }
};

// Bytes that a call is lent: scratch, and what stands between pieces of keys.
struct AttentionBytes {
  std::size_t workspace = 0, state = 0;
};

// Pairs of a query and a key that it sees, counted as an area: T^2 / 2 of T queries and their keys.
inline double pairs_seen(const AttentionShape& s) {
  const auto keys = static_cast<double>(s.keys()), queries = static_cast<double>(s.tokens);
  // Of all queries before x, if the first key is at 0.
  const auto before = [&](double x) {
    const double inside = std::clamp(x, 0.0, keys);
    return inside * inside / 2 + keys * (std::max(x, keys) - keys);
  };
  const auto seen = [&](double first) { return before(first + queries) - before(first); };
  const auto first = static_cast<double>(s.query_at - s.key_at);
  return seen(first) - (s.window > 0 ? seen(first - static_cast<double>(s.window)) : 0);
}

// Two products of D a pair and head. Backward has five, as the probabilities are computed again.
inline double attention_flops(const AttentionShape& s, Direction d) {
  const double forward = 4.0 * static_cast<double>(s.batch * s.heads * s.head_dim) * pairs_seen(s);
  return d == Direction::forward ? forward : 2.5 * forward;
}

// Keys and values of a context may come in pieces, one call each in ascending order, and what is
// known of the queries stands in the state between them. Queries have the bits that all keys at
// once give them, if each piece begins at a multiple of BackendProperties::key_tile; but in bf16 on
// cuda, where cuDNN rounds what each piece gives.
enum class Piece : std::uint8_t { all, first, next, last };
constexpr bool begins_keys(Piece p) {
  return p == Piece::all || p == Piece::first;
}
constexpr bool ends_keys(Piece p) {
  return p == Piece::all || p == Piece::last;
}

namespace kernel {

// softmax(s) v with s = scale q k', or c tanh(scale q k' / c) with a soft cap c, over the keys not
// later than the query, and of those the last `window`; query head h reads key/value head h * G /
// H. Strided: only the last dim is dense. lse is the log of what softmax divides by; backward needs
// it beside inputs and output. o and lse are written with the last piece; each query sees a key of
// some piece. start_BT (i32): query t sees keys start(t) to t alone, those of its document, which
// starts at that position; a row never falls, and start(t) <= t. flops() counts as if it were
// absent. sink_H: softmax divides by exp(sink) of the head more than its keys add up to (Xiao et
// al. 2023, as OpenAI's gpt-oss learns it). workspace and, with pieces, state have the bytes that
// Backend::attention_bytes asks for; absent where those are none.
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

// Of queries and the keys of one piece: dq is written with the last one, dk and dv, in the compute
// or the wide type, with each, or added to. As i64 they count quanta of 2^-shift gradient quanta: a
// call's sum over its queries is one term.
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

// Of sinks, by what attention made with them: dsink(h) = - sum over b and t of
// exp(sink(h) - lse(b, h, t)) do(b, t, h).o(b, t, h), in the wide type. Strided, but for sinks.
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

// Attention of a few more positions of one sample, whose earlier keys and values are kept: rows of
// k and v become positions `at` and on of the caches, and each query attends to the positions up to
// its own, as Attention has it, sinks and windows included. Position p is row p % P of a cache:
// P >= at + T, or, a multiple of BackendProperties::key_tile, P >= window + T - 1. Other
// rows stay as they are. Strided: only the last dim is dense. A head's bits depend on that head and
// position alone.
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
  // Positions that some query sees.
  std::int64_t positions() const {
    const auto all = at + q_THD.extent[0];
    return window > 0 ? std::min(all, window - 1 + q_THD.extent[0]) : all;
  }
  // tile: BackendProperties::key_tile.
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
