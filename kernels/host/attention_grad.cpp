// Backward pass of attention (Dao 2023, "FlashAttention-2"). The scores of each pair of a query
// tile and a key tile are computed again. With lse from the forward pass and
// delta = rowsum(do * o),
//   p = exp(s - lse)   ds = scale p (do v' - delta)   dv += p' do   dk += ds' q   dq += ds k
// There are two ways to process the pairs. They give the same bits, because each element of a
// gradient is one chain of FMAs in the order of its tiles.
//   whole  A unit of work is a key/value head. Each pair is processed once. Scratch holds the sums
//          for dk and dv of all keys.
//   split  A unit of work is a few key tiles (for dk and dv), and then a few query tiles (for dq).
//          Each pair is processed twice. This way needs little scratch. It is for few heads on many
//          threads, and for very long sequences.
#include <cmath>

#include "kernels/host/attention_tile.hpp"
#include "kernels/host/quanta.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

constexpr std::int64_t most_whole_bytes = 32 << 20;  // limit for the sums of one thread

// State of one query tile while its keys are processed.
struct Queries {
  void place(Scratch& s, std::int64_t E) {
    for (auto* part : {&q, &d_o, &qT, &d_oT, &dq}) *part = s.floats(edge * E);
    for (auto* part : {&lse, &delta}) *part = s.floats(edge);
  }
  static std::int64_t floats(std::int64_t E) { return 5 * edge * E + 2 * edge; }
  static std::int64_t kept_floats(std::int64_t E) { return edge * E; }

  float *q, *d_o, *qT, *d_oT, *dq, *lse, *delta;
  FirstKeys first;
};

// Scratch of one thread.
struct Tiles {
  Tiles(Scratch s, std::int64_t E, std::int64_t at_once)
      : k(s.floats(edge * E)),
        v(s.floats(edge * E)),
        p(s.floats(edge * edge)),
        ds(s.floats(edge * edge)) {
    for (std::int64_t i = 0; i < at_once; ++i) queries[static_cast<std::size_t>(i)].place(s, E);
  }
  static std::int64_t floats(std::int64_t E, std::int64_t at_once) {
    return 2 * edge * E + 2 * edge * edge + at_once * Queries::floats(E);
  }

  float *k, *v, *p, *ds;
  std::array<Queries, most_at_once> queries;
};

// Sums for dk and dv of `rows` keys of one head.
struct KeySums {
  KeySums(float* at, std::int64_t rows, std::int64_t E) : dk(at), dv(at + rows * E) {}
  KeySums(float* k, float* v) : dk(k), dv(v) {}
  static std::int64_t floats(std::int64_t rows, std::int64_t E) { return 2 * rows * E; }
  KeySums from(std::int64_t row, std::int64_t E) const { return {dk + row * E, dv + row * E}; }
  float *dk, *dv;
};

enum class Want : std::uint8_t { all, keys, queries };  // keys: dk and dv; queries: dq

// One call with operands of type T, and dk and dv of type Sum.
template <class T, class Sum>
class Pass {
 public:
  Pass(const kernel::AttentionGrad& g, const Tiling& tiling) : g_(g), t_(tiling) {}

  void load_query(Queries& to, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const auto D = t_.shape.head_dim, E = t_.E, n = t_.queries(i), at = i * edge;
    to.first = first_keys(b, i);
    const auto scale = static_cast<float>(t_.shape.scale);
    load_tile(to.qT, rows_of<T>(g_.o_BTHD, b, at, h), g_.o_BTHD.stride[1], n, D, E);
    load_tile(to.d_o, rows_of<T>(g_.do_BTHD, b, at, h), g_.do_BTHD.stride[1], n, D, E);
    for (std::int64_t r = 0; r < n; r += lanes) {
      std::array<Vec, lanes> delta{};
      for (std::int64_t e = 0; e < E; e += lanes) {
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l)
          delta[l] += load(to.d_o + (r + l) * E + e) * load(to.qT + (r + l) * E + e);
      }
      store(to.delta + r, sums(delta) * scale);
    }
    transpose_tile(to.d_oT, to.d_o, E, n, E, scale);
    load_tile(to.q, rows_of<T>(g_.q_BTHD, b, at, h), g_.q_BTHD.stride[1], n, D, E);
    transpose_tile(to.qT, to.q, E, n, E, scale * log2_e);
    const auto& s = g_.lse_BHT.stride;
    const auto* lse = reinterpret_cast<const float*>(g_.lse_BHT.data) + b * s[0] + h * s[1];
    for (std::int64_t r = 0; r < n; ++r) to.lse[r] = lse[(at + r) * s[2]] * log2_e;
    std::fill(to.lse + n, to.lse + edge, 0.0F);
  }

  FirstKeys first_keys(std::int64_t b, std::int64_t i) const {
    return {t_.shape, g_.start_BT, b, i * edge, t_.queries(i)};
  }

  void load_key(const Tiles& t, std::int64_t b, std::int64_t g, std::int64_t j) const {
    const auto D = t_.shape.head_dim, n = t_.keys(j), at = j * edge;
    load_tile(t.k, rows_of<T>(g_.k_BTGD, b, at, g), g_.k_BTGD.stride[1], n, D, t_.E);
    load_tile(t.v, rows_of<T>(g_.v_BTGD, b, at, g), g_.v_BTGD.stride[1], n, D, t_.E);
  }

  // Computes p and ds of a query tile and the loaded key tile, both as [key][query].
  void scores(const Tiles& t, const Queries& q, const Pair& of) const {
    of.score(t.p, t.k, q.qT, t_);
    of.score(t.ds, t.v, q.d_oT, t_);
    if (t_.shape.softcap > 0) {
      cap_scores(t.p, of, t_.shape.softcap);
      return capped_scores(t, q, of);
    }
    for (std::int64_t column = 0; column < of.queries; column += lanes) {
      const Vec lse = load(q.lse + column), delta = load(q.delta + column);
      of.for_keys(column, [&](std::int64_t key, VecInt seen) {
        float* at_p = t.p + key * edge + column;
        float* at_ds = t.ds + key * edge + column;
        const Vec p = seen ? exp2_below(load(at_p) - lse) : Vec{};
        store(at_p, p);
        store(at_ds, seen ? p * (load(at_ds) - delta) : Vec{});
      });
    }
  }

  // Computes p and ds from scores z under a soft cap c. ds is also multiplied by 1 - (z / c)^2.
  void capped_scores(const Tiles& t, const Queries& q, const Pair& of) const {
    const float part = 1 / (static_cast<float>(t_.shape.softcap) * log2_e);
    for (std::int64_t column = 0; column < of.queries; column += lanes) {
      const Vec lse = load(q.lse + column), delta = load(q.delta + column);
      of.for_keys(column, [&](std::int64_t key, VecInt seen) {
        float* at_p = t.p + key * edge + column;
        float* at_ds = t.ds + key * edge + column;
        const Vec z = load(at_p), of_cap = z * part;
        const Vec p = seen ? exp2_below(z - lse) : Vec{};
        store(at_p, p);
        store(at_ds, seen ? p * (load(at_ds) - delta) * (1 - of_cap * of_cap) : Vec{});
      });
    }
  }

  // Adds the terms of a pair to the sums of its key tile.
  void add_key(const Tiles& t, const Queries& q, const KeySums& tile, const Pair& of) const {
    const auto part = [&](std::int64_t key) { return of.queries_of(key); };
    const auto E = t_.E;
    const auto sum = tile.from(of.skip, E);
    product(sum.dv, E, Accumulate::add, Rows{t.p, edge}, q.d_o, E, of.keys, E, part);
    product(sum.dk, E, Accumulate::add, Rows{t.ds, edge}, q.q, E, of.keys, E, part);
  }

  void add_query(const Tiles& t, const Queries& q, const Pair& of) const {
    const auto E = t_.E;
    product(q.dq, E, Accumulate::add, Columns{t.ds, edge}, t.k + of.skip * E, E, of.queries, E,
            [&](std::int64_t row) { return of.keys_of(row); });
  }

  // Sets dq to zero before the first piece of keys. If keys come in pieces, dq is stored in the
  // call's state.
  void begin_query(Queries& to, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const auto unit = (b * t_.shape.heads + h) * t_.tiles + i;
    if (g_.piece != Piece::all)
      to.dq = reinterpret_cast<float*>(g_.state.data) + unit * Queries::kept_floats(t_.E);
    if (begins_keys(g_.piece)) std::fill_n(to.dq, edge * t_.E, 0.0F);
  }
  void end_query(const Queries& q, std::int64_t b, std::int64_t h, std::int64_t i) const {
    store_tile(rows_of<T>(g_.dq_BTHD, b, i * edge, h), g_.dq_BTHD.stride[1], q.dq, t_.queries(i),
               t_.shape.head_dim, t_.E);
  }

  void begin_keys(const KeySums& sum, std::int64_t b, std::int64_t g, std::int64_t at,
                  std::int64_t n) const {
    const auto D = t_.shape.head_dim, E = t_.E, whole = rounded_up(n, edge);
    if (g_.keys == Accumulate::overwrite || counts) {
      std::fill_n(sum.dk, whole * E, 0.0F);
      std::fill_n(sum.dv, whole * E, 0.0F);
      return;
    }
    if constexpr (!counts) {
      load_tile(sum.dk, rows_of<Sum>(g_.dk_BTGD, b, at, g), g_.dk_BTGD.stride[1], n, D, E);
      load_tile(sum.dv, rows_of<Sum>(g_.dv_BTGD, b, at, g), g_.dv_BTGD.stride[1], n, D, E);
    }
  }
  void end_keys(const KeySums& sum, std::int64_t b, std::int64_t g, std::int64_t at,
                std::int64_t n) const {
    end_sum(sum.dk, g_.dk_BTGD, b, g, at, n);
    end_sum(sum.dv, g_.dv_BTGD, b, g, at, n);
  }
  void end_sum(float* sum, const View& to, std::int64_t b, std::int64_t g, std::int64_t at,
               std::int64_t n) const {
    auto* const first = rows_of<Sum>(to, b, at, g);
    if constexpr (counts) {
      const auto D = t_.shape.head_dim;
      const float factor = std::ldexp(1.0F, g_.shift);
      Largest largest;
      for (std::int64_t r = 0; r < n; ++r) {
        float* const row = sum + r * t_.E;
        for (std::int64_t d = 0; d < D; ++d) row[d] *= factor;
        add_quanta(first + r * to.stride[1], g_.keys, row, D);
        largest.take(row, D);
      }
      largest.put(g_.largest);
    } else {
      store_tile(first, to.stride[1], sum, n, t_.shape.head_dim, t_.E);
    }
  }

  // Processes query tiles [begin, end) with key tiles [key_begin, key_end). `sum` holds the sums of
  // these key tiles.
  void tiles(Tiles& t, const KeySums& sum, Want want, std::int64_t b, std::int64_t h,
             std::int64_t begin, std::int64_t end, std::int64_t key_begin,
             std::int64_t key_end) const {
    const auto of = [&](std::int64_t i) -> Queries& {
      return t.queries[static_cast<std::size_t>(i - begin)];
    };
    for (auto i = begin; i < end; ++i) {
      load_query(of(i), b, h, i);
      if (want != Want::keys) begin_query(of(i), b, h, i);
    }
    const auto last = std::min(key_end, t_.key_tiles_of(end - 1));
    for (auto j = std::max(key_begin, of(begin).first.tile()); j < last; ++j) {
      load_key(t, b, t_.kv_head(h), j);
      for (auto i = begin; i < end; ++i) {
        if (j < of(i).first.tile() || j >= t_.key_tiles_of(i)) continue;
        const Pair pair(t_, of(i).first, i, j);
        scores(t, of(i), pair);
        if (want != Want::queries) add_key(t, of(i), sum.from((j - key_begin) * edge, t_.E), pair);
        if (want != Want::keys) add_query(t, of(i), pair);
      }
    }
    if (want == Want::keys || !ends_keys(g_.piece)) return;
    for (auto i = begin; i < end; ++i) end_query(of(i), b, h, i);
  }

  // Computes dk and dv of key tiles [begin, end), with `at_once` query tiles at a time. Want::all
  // also computes dq.
  void key_tiles(Tiles& t, float* sums, Want want, std::int64_t at_once, std::int64_t b,
                 std::int64_t g, std::int64_t begin, std::int64_t end) const {
    const KeySums sum(sums, (end - begin) * edge, t_.E);
    const auto at = begin * edge, keys = std::min(end * edge, t_.shape.keys()) - at;
    begin_keys(sum, b, g, at, keys);
    const bool all = want == Want::all;  // each query needs dq, even if it sees no key
    for (auto h = t_.first_head(g); h < t_.first_head(g + 1); ++h) {
      for (auto i = all ? 0 : t_.first_query_tile(begin); i < t_.tiles; i += at_once) {
        if (!all && first_keys(b, i).tile() >= end) break;  // later queries see none of the keys
        tiles(t, sum, want, b, h, i, std::min(i + at_once, t_.tiles), begin, end);
      }
    }
    end_keys(sum, b, g, at, keys);
  }

 private:
  static constexpr bool counts = std::is_same_v<Sum, std::int64_t>;
  const kernel::AttentionGrad& g_;
  const Tiling& t_;
};

// How the work is divided for the number of threads, and the scratch that this needs.
struct Cut {
  explicit Cut(const Tiling& t) : heads(t.shape.batch * t.shape.kv_heads) {
    const auto sums = KeySums::floats(t.key_tiles * edge, t.E);
    const auto rounds = (heads + threads() - 1) / threads();
    // `split` computes 7 products of tiles where `whole` computes 5, but keeps all threads busy.
    whole =
        t.key_tiles == 1 || (sums * static_cast<std::int64_t>(sizeof(float)) <= most_whole_bytes &&
                             7 * heads >= 5 * rounds * threads());
    const auto query_heads = t.shape.batch * t.shape.heads;
    at_once = whole ? std::min(t.tiles, most_at_once) : tiles_at_once(t.tiles, query_heads);
    key_tiles_at_once = whole ? t.key_tiles : tiles_at_once(t.key_tiles, heads);
    slot_floats = Tiles::floats(t.E, at_once) + KeySums::floats(key_tiles_at_once * edge, t.E);
    slots = slots_for(whole ? heads : std::max(query_heads * t.tiles, heads * t.key_tiles));
  }
  std::int64_t heads, at_once, key_tiles_at_once, slot_floats, slots;
  bool whole;
};

template <class T, class Sum>
void backward(const kernel::AttentionGrad& o, const Tiling& tiling) {
  const Cut cut(tiling);
  const Pass<T, Sum> pass(o, tiling);
  const auto& s = tiling.shape;
  float* scratch = Scratch(o.workspace.data).floats(0);
  const auto with_scratch = [&](std::int64_t slot, const auto& body) {
    float* at = scratch + slot * cut.slot_floats;
    Tiles t(Scratch(reinterpret_cast<std::byte*>(at)), tiling.E, cut.at_once);
    body(t, at + Tiles::floats(tiling.E, cut.at_once));
  };
  // The tiles that form most pairs come first, so that the threads finish at about the same time.
  const auto key_turns = (tiling.key_tiles + cut.key_tiles_at_once - 1) / cut.key_tiles_at_once;
  share(cut.heads * key_turns, [&](std::int64_t unit, std::int64_t slot) {
    with_scratch(slot, [&](Tiles& t, float* sums) {
      const auto head = unit % cut.heads, begin = unit / cut.heads * cut.key_tiles_at_once;
      pass.key_tiles(t, sums, cut.whole ? Want::all : Want::keys, cut.at_once, head / s.kv_heads,
                     head % s.kv_heads, begin,
                     std::min(begin + cut.key_tiles_at_once, tiling.key_tiles));
    });
  });
  if (cut.whole) return;
  const auto heads = s.batch * s.heads, turns = (tiling.tiles + cut.at_once - 1) / cut.at_once;
  share(heads * turns, [&](std::int64_t unit, std::int64_t slot) {
    with_scratch(slot, [&](Tiles& t, float* sums) {
      const auto head = unit % heads, begin = (turns - 1 - unit / heads) * cut.at_once;
      pass.tiles(t, KeySums(sums, 0, tiling.E), Want::queries, head / s.heads, head % s.heads,
                 begin, std::min(begin + cut.at_once, tiling.tiles), 0, tiling.key_tiles);
    });
  });
}

}  // namespace

AttentionBytes attention_grad_bytes(const Tiling& tiling) {
  const Cut cut(tiling);
  const auto& s = tiling.shape;
  const auto units = s.batch * s.heads * tiling.tiles;
  return {
      static_cast<std::size_t>(cut.slots * cut.slot_floats) * sizeof(float) + Scratch::alignment,
      static_cast<std::size_t>(units * Queries::kept_floats(tiling.E)) * sizeof(float)};
}

void run(const kernel::AttentionGrad& o, View) {
  check_attention(o.shape, {o.q_BTHD, o.dq_BTHD, o.do_BTHD, o.o_BTHD}, {o.k_BTGD, o.v_BTGD},
                  o.lse_BHT, {o.workspace, o.state, o.piece}, o.start_BT, Direction::backward);
  const auto type = o.q_BTHD.dtype, sums = o.dk_BTGD.dtype;
  for (const auto& v : {o.dk_BTGD, o.dv_BTGD})
    require(v.extent == o.k_BTGD.extent && v.dtype == sums &&
                (sums == type || sums == wide(type) || sums == DType::i64) &&
                (v.stride[3] == 1 || v.extent[3] == 1),
            "attention_grad: dk and dv are {}, not like k in {}, {} or i64", name_of(v.dtype),
            name_of(type), name_of(wide(type)));
  const Tiling tiling(o.shape);
  if (sums == DType::i64 && type == DType::f32)
    backward<float, std::int64_t>(o, tiling);
  else if (sums == DType::i64)
    backward<bf16, std::int64_t>(o, tiling);
  else if (type == DType::f32)
    backward<float, float>(o, tiling);
  else if (sums == DType::bf16)
    backward<bf16, bf16>(o, tiling);
  else
    backward<bf16, float>(o, tiling);
}

}  // namespace trireme::host
