// o = softmax(scale q k') v over the keys that are not later than the query. Keys are processed
// tile by tile with a running maximum and sum, so the matrix of scores is never stored as a whole
// (Dao 2023, "FlashAttention-2"). A unit of work is a few query tiles of one head, which share
// copies of keys and values. The arithmetic of a tile depends neither on the other tiles nor on the
// threads. Scores are multiplied by log2(e), so that their exponentials are powers of 2.
#include <limits>

#include "kernels/host/attention_tile.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

// State of one query tile while its keys are processed.
struct Queries {
  void place(Scratch& s, std::int64_t E) {
    qT = s.floats(E * edge);
    keep(s.floats(kept_floats(E)), E);
  }
  static std::int64_t floats(std::int64_t E) { return E * edge + kept_floats(E); }
  // Places o, max and sum at `at`. If keys come in pieces, this is the call's state, where the next
  // piece finds them.
  void keep(float* at, std::int64_t E) {
    o = at;
    max = o + edge * E;
    sum = max + edge;
  }
  static std::int64_t kept_floats(std::int64_t E) { return edge * E + 2 * edge; }

  float *qT, *o, *max, *sum;
  FirstKeys first;
};

// Scratch of one thread.
struct Tiles {
  Tiles(Scratch s, std::int64_t E, std::int64_t at_once)
      : k(s.floats(edge * E)),
        v(s.floats(edge * E)),
        s(s.floats(edge * edge)),
        shrink(s.floats(edge)) {
    for (std::int64_t i = 0; i < at_once; ++i) queries[static_cast<std::size_t>(i)].place(s, E);
  }
  static std::int64_t floats(std::int64_t E, std::int64_t at_once) {
    return 2 * edge * E + edge * edge + edge + at_once * Queries::floats(E);
  }

  float *k, *v, *s, *shrink;
  std::array<Queries, most_at_once> queries;
};

// Replaces s by 2^(s - max), or by 0 where the key is masked. Updates max and sum, and sets
// `shrink`, the factor for earlier results.
void softmax_tile(const Tiles& t, const Queries& q, const Pair& of) {
  for (std::int64_t column = 0; column < of.queries; column += lanes) {
    float* s = t.s + column;
    const Vec before = load(q.max + column);
    std::array<Vec, 4> most{before, before, before, before};  // four chains to hide the latency
    of.for_keys(column, [&](std::int64_t key, VecInt seen) {
      auto& m = most[key % 4];
      m = larger(seen ? load(s + key * edge) : m, m);
    });
    const Vec max = larger(larger(most[0], most[1]), larger(most[2], most[3]));
    const Vec shrink = exp2_below(before - max);
    Vec sum = load(q.sum + column) * shrink;
    of.for_keys(column, [&](std::int64_t key, VecInt seen) {
      const Vec p = seen ? exp2_below(load(s + key * edge) - max) : Vec{};
      store(s + key * edge, p);
      sum += p;
    });
    store(q.max + column, max);
    store(q.sum + column, sum);
    store(t.shrink + column, shrink);
  }
}

// Maximum of a query that has seen no key. It is finite, because infinity minus infinity is NaN.
constexpr float lowest = -std::numeric_limits<float>::max() / 2;

template <class T>
class Pass {
 public:
  Pass(const kernel::Attention& a, const Tiling& tiling) : a_(a), t_(tiling) {}

  // Computes query tiles [begin, end) of one head.
  void query_tiles(Tiles& t, std::int64_t b, std::int64_t h, std::int64_t begin,
                   std::int64_t end) const {
    const auto& queries = t.queries;
    for (auto i = begin; i < end; ++i)
      begin_queries(t, t.queries[static_cast<std::size_t>(i - begin)], b, h, i);
    for (auto j = queries[0].first.tile(); j < t_.key_tiles_of(end - 1); ++j) {
      load_keys(t.k, a_.k_BTGD, b, h, j);
      load_keys(t.v, a_.v_BTGD, b, h, j);
      for (auto i = begin; i < end; ++i) {
        const auto& q = queries[static_cast<std::size_t>(i - begin)];
        if (q.first.tile() <= j && j < t_.key_tiles_of(i)) pair(t, q, i, j);
      }
    }
    if (!ends_keys(a_.piece)) return;
    for (auto i = begin; i < end; ++i)
      end_queries(queries[static_cast<std::size_t>(i - begin)], b, h, i);
  }

 private:
  void begin_queries(const Tiles& t, Queries& to, std::int64_t b, std::int64_t h,
                     std::int64_t i) const {
    const auto& q = a_.q_BTHD;
    load_transposed(to.qT, rows_of<T>(q, b, i * edge, h), q.stride[1], t_.queries(i),
                    t_.shape.head_dim, t_.E, static_cast<float>(t_.shape.scale) * log2_e, t.k);
    to.first = FirstKeys(t_.shape, a_.start_BT, b, i * edge, t_.queries(i));
    if (a_.piece != Piece::all) {
      const auto unit = (b * t_.shape.heads + h) * t_.tiles + i;
      to.keep(reinterpret_cast<float*>(a_.state.data) + unit * Queries::kept_floats(t_.E), t_.E);
    }
    if (!begins_keys(a_.piece)) return;
    std::fill_n(to.max, edge, lowest);
    std::fill_n(to.sum, edge, 0.0F);
    std::fill_n(to.o, edge * t_.E, 0.0F);
  }

  void load_keys(float* to, const ConstView& from, std::int64_t b, std::int64_t h,
                 std::int64_t j) const {
    load_tile(to, rows_of<T>(from, b, j * edge, t_.kv_head(h)), from.stride[1], t_.keys(j),
              t_.shape.head_dim, t_.E);
  }

  void pair(const Tiles& t, const Queries& q, std::int64_t i, std::int64_t j) const {
    const auto E = t_.E;
    const Pair of(t_, q.first, i, j);
    of.score(t.s, t.k, q.qT, t_);
    if (t_.shape.softcap > 0) cap_scores(t.s, of, t_.shape.softcap);
    softmax_tile(t, q, of);
    for (std::int64_t r = 0; r < of.queries; ++r) {
      if (t.shrink[r] != 1) store_row(q.o + r * E, q.o + r * E, E, t.shrink[r]);
    }
    product(q.o, E, Accumulate::add, Columns{t.s, edge}, t.v + of.skip * E, E, of.queries, E,
            [&](std::int64_t row) { return of.keys_of(row); });
  }

  void end_queries(const Queries& q, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const View& lse = a_.lse_BHT;
    auto* to = reinterpret_cast<float*>(lse.data) + b * lse.stride[0] + h * lse.stride[1];
    for (std::int64_t r = 0; r < t_.queries(i); ++r) {
      const auto whole = softmax_of<T>(q.max[r] * ln_2, q.sum[r], a_.sink_H, h);
      to[(i * edge + r) * lse.stride[2]] = whole.lse;
      store_row(rows_of<T>(a_.o_BTHD, b, i * edge + r, h), q.o + r * t_.E, t_.shape.head_dim,
                whole.factor);
    }
  }

  const kernel::Attention& a_;
  const Tiling& t_;
};

template <class T>
void forward(const kernel::Attention& a, const Tiling& tiling) {
  const auto& shape = tiling.shape;
  const auto heads = shape.batch * shape.heads, at_once = tiles_at_once(tiling.tiles, heads);
  const auto slot_floats = Tiles::floats(tiling.E, at_once);
  const auto turns = (tiling.tiles + at_once - 1) / at_once;
  float* scratch = Scratch(a.workspace.data).floats(0);
  const Pass<T> pass(a, tiling);
  // The tiles with most keys come first, so that the threads finish at about the same time.
  share(heads * turns, [&](std::int64_t unit, std::int64_t slot) {
    const auto begin = (turns - 1 - unit / heads) * at_once, head = unit % heads;
    Tiles t(Scratch(reinterpret_cast<std::byte*>(scratch + slot * slot_floats)), tiling.E, at_once);
    pass.query_tiles(t, head / shape.heads, head % shape.heads, begin,
                     std::min(begin + at_once, tiling.tiles));
  });
}

}  // namespace

AttentionBytes attention_bytes(const AttentionShape& shape, DType, Direction direction) {
  const Tiling tiling(shape);
  if (direction == Direction::backward) return attention_grad_bytes(tiling);
  const auto heads = shape.batch * shape.heads, units = heads * tiling.tiles;
  const auto slot_floats = Tiles::floats(tiling.E, tiles_at_once(tiling.tiles, heads));
  return {
      static_cast<std::size_t>(slots_for(units) * slot_floats) * sizeof(float) + Scratch::alignment,
      static_cast<std::size_t>(units * Queries::kept_floats(tiling.E)) * sizeof(float)};
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
