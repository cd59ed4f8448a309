// The adjoint of attention. Per tile pair the scores are computed again and, with lse kept by the
// forward pass and delta = rowsum(do * o),
//   p = exp(s - lse)   ds = scale p (do v' - delta)   dv += p' do   dk += ds' q   dq += ds k
// Dao 2023, "FlashAttention-2". Two ways through the pairs that give the same bits, because each
// element of a gradient is one chain of FMAs in the order of its tiles:
//   whole  a unit is a key/value head: every pair once, sums for dk and dv in scratch, of all keys
//   split  a unit is a key tile (dk, dv), then a query tile (dq): every pair twice, little scratch;
//          for few heads on many threads and for long sequences
#include <cmath>

#include "kernels/host/attention_tile.hpp"
#include "kernels/host/quanta.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

constexpr std::int64_t most_whole_bytes = 8 << 20;  // of sums for a thread

// Scratch of one thread.
struct Tiles {
  Tiles(Scratch s, std::int64_t E)
      : q(s.floats(edge * E)),
        d_o(s.floats(edge * E)),
        qT(s.floats(edge * E)),
        d_oT(s.floats(edge * E)),
        k(s.floats(edge * E)),
        v(s.floats(edge * E)),
        dq(s.floats(edge * E)),
        p(s.floats(edge * edge)),
        ds(s.floats(edge * edge)),
        lse(s.floats(edge)),
        delta(s.floats(edge)) {}
  static std::int64_t floats(std::int64_t E) { return 7 * edge * E + 2 * edge * edge + 2 * edge; }

  static std::int64_t kept_floats(std::int64_t E) { return edge * E; }

  float *q, *d_o, *qT, *d_oT, *k, *v, *dq, *p, *ds, *lse, *delta;
};

// Sums for dk and dv over `rows` keys of one head.
struct KeySums {
  KeySums(float* at, std::int64_t rows, std::int64_t E) : dk(at), dv(at + rows * E) {}
  KeySums(float* k, float* v) : dk(k), dv(v) {}
  static std::int64_t floats(std::int64_t rows, std::int64_t E) { return 2 * rows * E; }
  KeySums from(std::int64_t row, std::int64_t E) const { return {dk + row * E, dv + row * E}; }
  float *dk, *dv;
};

// Of operands T, with dk and dv of type Sum.
template <class T, class Sum>
class Pass {
 public:
  Pass(const kernel::AttentionGrad& g, const Tiling& tiling) : g_(g), t_(tiling) {}

  void load_query(const Tiles& t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const auto D = t_.shape.head_dim, E = t_.E, n = t_.queries(i), at = i * edge;
    load_tile(t.qT, rows_of<T>(g_.o_BTHD, b, at, h), g_.o_BTHD.stride[1], n, D, E);
    load_tile(t.d_o, rows_of<T>(g_.do_BTHD, b, at, h), g_.do_BTHD.stride[1], n, D, E);
    for (std::int64_t r = 0; r < n; r += lanes) {
      std::array<Vec, lanes> delta{};
      for (std::int64_t e = 0; e < E; e += lanes) {
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l)
          delta[l] += load(t.d_o + (r + l) * E + e) * load(t.qT + (r + l) * E + e);
      }
      store(t.delta + r, sums(delta));
    }
    transpose_tile(t.d_oT, t.d_o, E, n, E, 1.0F);
    load_tile(t.q, rows_of<T>(g_.q_BTHD, b, at, h), g_.q_BTHD.stride[1], n, D, E);
    transpose_tile(t.qT, t.q, E, n, E, static_cast<float>(t_.shape.scale));
    const auto& s = g_.lse_BHT.stride;
    const auto* lse = reinterpret_cast<const float*>(g_.lse_BHT.data) + b * s[0] + h * s[1];
    for (std::int64_t r = 0; r < n; ++r) t.lse[r] = lse[(at + r) * s[2]];
    std::fill(t.lse + n, t.lse + edge, 0.0F);
  }

  void load_key(const Tiles& t, std::int64_t b, std::int64_t g, std::int64_t j) const {
    const auto D = t_.shape.head_dim, n = t_.keys(j), at = j * edge;
    load_tile(t.k, rows_of<T>(g_.k_BTGD, b, at, g), g_.k_BTGD.stride[1], n, D, t_.E);
    load_tile(t.v, rows_of<T>(g_.v_BTGD, b, at, g), g_.v_BTGD.stride[1], n, D, t_.E);
  }

  FirstKeys first_keys(std::int64_t b, std::int64_t i) const {
    return {t_.shape, g_.start_BT, b, i * edge, t_.queries(i)};
  }

  // p and ds of the loaded query tile i and key tile j, both as [key][query].
  void pair(const Tiles& t, const FirstKeys& first, std::int64_t i, std::int64_t j) const {
    const auto keys = t_.keys(j), queries = t_.queries(i), ahead = t_.ahead(i, j);
    const TileMask mask(first, j, ahead);
    score_tile(t.p, t.k, t.qT, keys, queries, t_, ahead);
    score_tile(t.ds, t.v, t.d_oT, keys, queries, t_, ahead);
    const auto scale = static_cast<float>(t_.shape.scale);
    for (std::int64_t column = 0; column < queries; column += lanes) {
      const Vec lse = load(t.lse + column), delta = load(t.delta + column);
      for_keys(column, keys, mask, [&](std::int64_t key, VecInt seen) {
        float* at_p = t.p + key * edge + column;
        float* at_ds = t.ds + key * edge + column;
        const Vec p = seen ? exp_below(load(at_p) - lse) : Vec{};
        store(at_p, p);
        store(at_ds, seen ? p * (load(at_ds) - delta) * scale : Vec{});
      });
    }
  }

  void add_key(const Tiles& t, const KeySums& sum, std::int64_t i, std::int64_t j) const {
    const auto ahead = t_.ahead(i, j);
    const auto part = [&](std::int64_t key) {
      return Part{first_query(key, ahead), t_.queries(i), 0};
    };
    const auto E = t_.E, keys = t_.keys(j);
    product(sum.dv, E, Accumulate::add, Rows{t.p, edge}, t.d_o, E, keys, E, part);
    product(sum.dk, E, Accumulate::add, Rows{t.ds, edge}, t.q, E, keys, E, part);
  }

  void add_query(const Tiles& t, std::int64_t i, std::int64_t j) const {
    const auto E = t_.E, keys = t_.keys(j), ahead = t_.ahead(i, j);
    product(t.dq, E, Accumulate::add, Columns{t.ds, edge}, t.k, E, t_.queries(i), E,
            [&](std::int64_t row) {
              return Part{0, keys_end(row, ahead, keys), 0};
            });
  }

  // dq is in the state where keys come in pieces.
  Tiles begin_query(Tiles t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const auto unit = (b * t_.shape.heads + h) * t_.tiles + i;
    if (g_.piece != Piece::all)
      t.dq = reinterpret_cast<float*>(g_.state.data) + unit * Tiles::kept_floats(t_.E);
    if (begins(g_.piece)) std::fill_n(t.dq, edge * t_.E, 0.0F);
    return t;
  }
  void end_query(const Tiles& t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (!ends(g_.piece)) return;
    store_tile(rows_of<T>(g_.dq_BTHD, b, i * edge, h), g_.dq_BTHD.stride[1], t.dq, t_.queries(i),
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

  void whole(const Tiles& scratch, float* sums, std::int64_t b, std::int64_t g) const {
    const KeySums sum(sums, t_.key_tiles * edge, t_.E);
    begin_keys(sum, b, g, 0, t_.shape.keys());
    for (auto h = t_.first_head(g); h < t_.first_head(g + 1); ++h) {
      for (std::int64_t i = 0; i < t_.tiles; ++i) {
        const auto t = begin_query(scratch, b, h, i);
        load_query(t, b, h, i);
        const auto keys = first_keys(b, i);
        for (auto j = keys.tile(); j < t_.key_tiles_of(i); ++j) {
          load_key(t, b, g, j);
          pair(t, keys, i, j);
          add_key(t, sum.from(j * edge, t_.E), i, j);
          add_query(t, i, j);
        }
        end_query(t, b, h, i);
      }
    }
    end_keys(sum, b, g, 0, t_.shape.keys());
  }

  void key_tile(const Tiles& t, float* sums, std::int64_t b, std::int64_t g, std::int64_t j) const {
    const KeySums sum(sums, edge, t_.E);
    begin_keys(sum, b, g, j * edge, t_.keys(j));
    load_key(t, b, g, j);
    for (auto h = t_.first_head(g); h < t_.first_head(g + 1); ++h) {
      for (auto i = t_.first_query_tile(j); i < t_.tiles; ++i) {
        const auto keys = first_keys(b, i);
        if (keys.tile() > j) break;  // neither do those behind it see this tile
        load_query(t, b, h, i);
        pair(t, keys, i, j);
        add_key(t, sum, i, j);
      }
    }
    end_keys(sum, b, g, j * edge, t_.keys(j));
  }

  void query_tile(const Tiles& scratch, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const auto t = begin_query(scratch, b, h, i);
    load_query(t, b, h, i);
    const auto keys = first_keys(b, i);
    for (auto j = keys.tile(); j < t_.key_tiles_of(i); ++j) {
      load_key(t, b, t_.kv_head(h), j);
      pair(t, keys, i, j);
      add_query(t, i, j);
    }
    end_query(t, b, h, i);
  }

 private:
  static constexpr bool counts = std::is_same_v<Sum, std::int64_t>;
  const kernel::AttentionGrad& g_;
  const Tiling& t_;
};

// How the work is cut for this many threads, and what scratch that takes.
struct Cut {
  explicit Cut(const Tiling& t) : heads(t.shape.batch * t.shape.kv_heads) {
    const auto sums = KeySums::floats(t.key_tiles * edge, t.E);
    const auto rounds = (heads + threads() - 1) / threads();
    // Split does 7 products of tiles for whole's 5 and keeps all threads busy.
    whole =
        t.key_tiles == 1 || (sums * static_cast<std::int64_t>(sizeof(float)) <= most_whole_bytes &&
                             7 * heads >= 5 * rounds * threads());
    slot_floats = Tiles::floats(t.E) + (whole ? sums : KeySums::floats(edge, t.E));
    slots = slots_for(
        whole ? heads : std::max(t.shape.batch * t.shape.heads * t.tiles, heads * t.key_tiles));
  }
  std::int64_t heads, slot_floats, slots;
  bool whole;
};

template <class T, class Sum>
void backward(const kernel::AttentionGrad& o, const Tiling& tiling) {
  const Cut cut(tiling);
  const Pass<T, Sum> pass(o, tiling);
  const auto& s = tiling.shape;
  float* scratch = Scratch(o.workspace.data).floats(0);
  const auto tiles_of = [&](std::int64_t slot) {
    return Tiles(Scratch(reinterpret_cast<std::byte*>(scratch + slot * cut.slot_floats)), tiling.E);
  };
  const auto sums_of = [&](std::int64_t slot) {
    return scratch + slot * cut.slot_floats + Tiles::floats(tiling.E);
  };
  if (cut.whole) {
    share(cut.heads, [&](std::int64_t unit, std::int64_t slot) {
      pass.whole(tiles_of(slot), sums_of(slot), unit / s.kv_heads, unit % s.kv_heads);
    });
    return;
  }
  // The long tiles first, so that the threads end together.
  share(cut.heads * tiling.key_tiles, [&](std::int64_t unit, std::int64_t slot) {
    const auto head = unit % cut.heads;
    pass.key_tile(tiles_of(slot), sums_of(slot), head / s.kv_heads, head % s.kv_heads,
                  unit / cut.heads);
  });
  const auto heads = s.batch * s.heads;
  share(heads * tiling.tiles, [&](std::int64_t unit, std::int64_t slot) {
    const auto head = unit % heads;
    pass.query_tile(tiles_of(slot), head / s.heads, head % s.heads,
                    tiling.tiles - 1 - unit / heads);
  });
}

}  // namespace

AttentionBytes attention_grad_bytes(const Tiling& tiling) {
  const Cut cut(tiling);
  const auto& s = tiling.shape;
  const auto units = s.batch * s.heads * tiling.tiles;
  return {
      static_cast<std::size_t>(cut.slots * cut.slot_floats) * sizeof(float) + Scratch::alignment,
      static_cast<std::size_t>(units * Tiles::kept_floats(tiling.E)) * sizeof(float)};
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
