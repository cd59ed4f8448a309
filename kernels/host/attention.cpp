// o = softmax(scale q k') v over keys not later than the query, tile by tile with a running maximum
// and sum: no matrix of scores is ever whole. Dao 2023, "FlashAttention-2". A unit of work is one
// query tile of one head; nothing in its arithmetic depends on the other units or on the threads.
#include <limits>

#include "kernels/host/attention_tile.hpp"
#include "kernels/math/log.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

// Scratch of one thread.
struct Tiles {
  Tiles(Scratch s, std::int64_t E)
      : rows(s.floats(edge * E)),
        qT(s.floats(E * edge)),
        s(s.floats(edge * edge)),
        o(s.floats(edge * E)),
        max(s.floats(edge)),
        sum(s.floats(edge)),
        shrink(s.floats(edge)) {}
  static std::int64_t floats(std::int64_t E) { return 3 * edge * E + edge * edge + 3 * edge; }
  // o, max and sum are where the next piece of keys finds them.
  void kept_at(float* state, std::int64_t E) {
    o = state;
    max = state + edge * E;
    sum = max + edge;
  }
  static std::int64_t kept_floats(std::int64_t E) { return edge * E + 2 * edge; }

  float *rows, *qT, *s, *o, *max, *sum, *shrink;
};

// s becomes exp(s - max), 0 where hidden; updates max, sum and the factor by which earlier results
// shrink.
void softmax_tile(const Tiles& t, std::int64_t keys, std::int64_t queries, const TileMask& mask) {
  for (std::int64_t column = 0; column < queries; column += lanes) {
    float* s = t.s + column;
    const Vec before = load(t.max + column);
    std::array<Vec, 4> most{before, before, before, before};  // four chains hide the latency
    for_keys(column, keys, mask, [&](std::int64_t key, VecInt seen) {
      auto& m = most[key % 4];
      m = larger(seen ? load(s + key * edge) : m, m);
    });
    const Vec max = larger(larger(most[0], most[1]), larger(most[2], most[3]));
    const Vec shrink = exp_below(before - max);
    Vec sum = load(t.sum + column) * shrink;
    for_keys(column, keys, mask, [&](std::int64_t key, VecInt seen) {
      const Vec p = seen ? exp_below(load(s + key * edge) - max) : Vec{};
      store(s + key * edge, p);
      sum += p;
    });
    store(t.max + column, max);
    store(t.sum + column, sum);
    store(t.shrink + column, shrink);
  }
}

// Of a query that has seen no key: finite, as infinity less infinity is no number.
constexpr float lowest = -std::numeric_limits<float>::max() / 2;

template <class T>
void query_tile(const kernel::Attention& a, const Tiling& tiling, std::int64_t b, std::int64_t h,
                std::int64_t i, const Tiles& t) {
  const ConstView &q = a.q_BTHD, &k = a.k_BTGD, &v = a.v_BTGD;
  const View &o = a.o_BTHD, &lse = a.lse_BHT;
  const auto D = tiling.shape.head_dim, E = tiling.E, queries = tiling.queries(i);
  const auto g = tiling.kv_head(h);
  load_transposed(t.qT, rows_of<T>(q, b, i * edge, h), q.stride[1], queries, D, E,
                  static_cast<float>(tiling.shape.scale), t.rows);
  if (begins(a.piece)) {
    std::fill_n(t.max, edge, lowest);
    std::fill_n(t.sum, edge, 0.0F);
    std::fill_n(t.o, edge * E, 0.0F);
  }

  const FirstKeys first_keys(tiling.shape, a.start_BT, b, i * edge, queries);
  for (auto j = first_keys.tile(); j < tiling.key_tiles_of(i); ++j) {
    const auto ahead = tiling.ahead(i, j), keys = tiling.keys(j);
    load_tile(t.rows, rows_of<T>(k, b, j * edge, g), k.stride[1], keys, D, E);
    score_tile(t.s, t.rows, t.qT, keys, queries, tiling, ahead);
    softmax_tile(t, keys, queries, TileMask(first_keys, j, ahead));
    for (std::int64_t r = 0; r < queries; ++r) {
      for (std::int64_t e = 0; e < E; ++e) t.o[r * E + e] *= t.shrink[r];
    }
    load_tile(t.rows, rows_of<T>(v, b, j * edge, g), v.stride[1], keys, D, E);
    product(t.o, E, Accumulate::add, Columns{t.s, edge}, t.rows, E, queries, E,
            [&](std::int64_t row) {
              return Part{0, keys_end(row, ahead, keys), 0};
            });
  }
  if (!ends(a.piece)) return;

  auto* lse_row = reinterpret_cast<float*>(lse.data) + b * lse.stride[0] + h * lse.stride[1];
  for (std::int64_t r = 0; r < queries; ++r) {
    lse_row[(i * edge + r) * lse.stride[2]] = t.max[r] + math::log(t.sum[r]);
    store_row(rows_of<T>(o, b, i * edge + r, h), t.o + r * E, D, 1 / t.sum[r]);
  }
}

template <class T>
void forward(const kernel::Attention& a, const Tiling& tiling) {
  const auto& shape = tiling.shape;
  const auto heads = shape.batch * shape.heads;
  const auto slot_floats = Tiles::floats(tiling.E);
  float* scratch = Scratch(a.workspace.data).floats(0);
  auto* const state = reinterpret_cast<float*>(a.state.data);
  // The long tiles first, so that the threads end together.
  share(heads * tiling.tiles, [&](std::int64_t unit, std::int64_t slot) {
    const auto i = tiling.tiles - 1 - unit / heads, head = unit % heads;
    Tiles t(Scratch(reinterpret_cast<std::byte*>(scratch + slot * slot_floats)), tiling.E);
    if (a.piece != Piece::all)
      t.kept_at(state + (head * tiling.tiles + i) * Tiles::kept_floats(tiling.E), tiling.E);
    query_tile<T>(a, tiling, head / shape.heads, head % shape.heads, i, t);
  });
}

}  // namespace

AttentionBytes attention_bytes(const AttentionShape& shape, DType, Direction direction) {
  const Tiling tiling(shape);
  if (direction == Direction::backward) return attention_grad_bytes(tiling);
  const auto units = shape.batch * shape.heads * tiling.tiles;
  return {static_cast<std::size_t>(slots_for(units) * Tiles::floats(tiling.E)) * sizeof(float) +
              Scratch::alignment,
          static_cast<std::size_t>(units * Tiles::kept_floats(tiling.E)) * sizeof(float)};
}

void run(const kernel::Attention& o, View) {
  check_attention(o.shape, {o.q_BTHD, o.o_BTHD}, {o.k_BTGD, o.v_BTGD}, o.lse_BHT,
                  {o.workspace, o.state, o.piece}, o.start_BT, Direction::forward);
  const Tiling tiling(o.shape);
  if (o.q_BTHD.dtype == DType::bf16)
    forward<bf16>(o, tiling);
  else
    forward<float>(o, tiling);
}

void check_attention(const AttentionShape& s, std::initializer_list<ConstView> query_side,
                     std::initializer_list<ConstView> key_side, const ConstView& lse,
                     const Lent& lent, const ConstView& start_BT, Direction direction) {
  require(s.head_dim >= 1 && s.head_dim <= max_head_dim,
          "attention: a head dim of {} is not supported; use 1 to {}", s.head_dim, max_head_dim);
  require(s.kv_heads >= 1 && s.kv_heads <= s.heads,
          "attention: {} key/value heads cannot serve {} query heads; use at most as many",
          s.kv_heads, s.heads);
  const auto type = query_side.begin()->dtype;
  require(type == DType::f32 || type == DType::bf16,
          "attention: {} is not computed on this backend; use f32 or bf16, or the ref backend",
          name_of(type));
  const auto check = [&](const ConstView& v, std::int64_t tokens, std::int64_t heads) {
    require(v.dims == 4 && v.extent[0] == s.batch && v.extent[1] == tokens &&
                v.extent[2] == heads && v.extent[3] == s.head_dim,
            "attention: an operand [{}, {}, {}, {}] is not [{}, {}, {}, {}]", v.extent[0],
            v.extent[1], v.extent[2], v.extent[3], s.batch, tokens, heads, s.head_dim);
    require(v.dtype == type, "attention: operands are {} and {}: cast to one type", name_of(type),
            name_of(v.dtype));
    require(v.stride[3] == 1 || s.head_dim == 1,
            "attention: the last dim has stride {}: copy it into a dense view first", v.stride[3]);
  };
  for (const auto& v : query_side)
    if (v) check(v, s.tokens, s.heads);
  for (const auto& v : key_side) check(v, s.keys(), s.kv_heads);
  require(!lse || (lse.dims == 3 && lse.dtype == DType::f32 && lse.extent[0] == s.batch &&
                   lse.extent[1] == s.heads && lse.extent[2] == s.tokens),
          "attention: lse is not f32 [{}, {}, {}]", s.batch, s.heads, s.tokens);
  require(!start_BT || (start_BT.dims == 2 && start_BT.dtype == DType::i32 &&
                        start_BT.extent[0] == s.batch && start_BT.extent[1] == s.tokens),
          "attention: documents' starts are not i32 [{}, {}]", s.batch, s.tokens);
  const auto needed = attention_bytes(s, type, direction);
  require(lent.workspace.span_bytes() >= needed.workspace,
          "attention: the workspace has {} bytes and needs {}: ask attention_bytes with the "
          "threads of the run",
          lent.workspace.span_bytes(), needed.workspace);
  require(lent.piece == Piece::all || lent.state.span_bytes() >= needed.state,
          "attention: the state has {} bytes and needs {}", lent.state.span_bytes(), needed.state);
}

}  // namespace trireme::host
