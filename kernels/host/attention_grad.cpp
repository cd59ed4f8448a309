// The adjoint of attention. Per tile pair the scores are computed again and, with lse kept by the
// forward pass and delta = rowsum(do * o),
//   p = exp(s - lse)   ds = scale p (do v' - delta)   dv += p' do   dk += ds' q   dq += ds k
// Dao 2023, "FlashAttention-2". Two ways through the pairs that give the same bits, because each
// element of a gradient is one chain of FMAs in the order of its tiles:
//   whole  a unit is a key/value head: every pair once, sums for dk and dv in scratch of length T
//   split  a unit is a key tile (dk, dv), then a query tile (dq): every pair twice, little scratch;
//          for few heads on many threads and for long sequences
#include "kernels/host/attention_tile.hpp"

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

  float *q, *d_o, *qT, *d_oT, *k, *v, *dq, *p, *ds, *lse, *delta;
};

// Sums for dk and dv over `rows` keys of one head.
struct KeySums {
  KeySums(float* at, std::int64_t rows, std::int64_t E) : dk(at), dv(at + rows * E) {}
  static std::int64_t floats(std::int64_t rows, std::int64_t E) { return 2 * rows * E; }
  float *dk, *dv;
};

template <class T>
class Pass {
 public:
  Pass(const kernel::AttentionGrad& g, const Tiling& tiling) : g_(g), t_(tiling) {}

  void load_query(const Tiles& t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const auto D = t_.shape.head_dim, E = t_.E, n = t_.size(i), at = i * edge;
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
    const auto D = t_.shape.head_dim, n = t_.size(j), at = j * edge;
    load_tile(t.k, rows_of<T>(g_.k_BTGD, b, at, g), g_.k_BTGD.stride[1], n, D, t_.E);
    load_tile(t.v, rows_of<T>(g_.v_BTGD, b, at, g), g_.v_BTGD.stride[1], n, D, t_.E);
  }

  FirstKeys first_keys(std::int64_t b, std::int64_t i) const {
    return {g_.start_BT, b, i * edge, t_.size(i)};
  }

  // p and ds of the loaded query tile i and key tile j, both as [key][query].
  void pair(const Tiles& t, const FirstKeys& first, std::int64_t i, std::int64_t j) const {
    const auto keys = t_.size(j), queries = t_.size(i);
    const TileMask mask(first, i, j);
    const bool diagonal = mask.diagonal;
    score_tile(t.p, t.k, t.qT, keys, queries, t_, diagonal);
    score_tile(t.ds, t.v, t.d_oT, keys, queries, t_, diagonal);
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

  void add_key(const Tiles& t, float* dk, float* dv, std::int64_t i, std::int64_t j,
               Accumulate how) const {
    const auto part = [&](std::int64_t key) { return Part{i == j ? key : 0, t_.size(i), 0}; };
    const auto E = t_.E, keys = t_.size(j);
    product(dv, E, how, Rows{t.p, edge}, t.d_o, E, keys, E, part);
    product(dk, E, how, Rows{t.ds, edge}, t.q, E, keys, E, part);
  }

  // The first pair that a key tile is in.
  Accumulate first(std::int64_t h, std::int64_t g, std::int64_t i, std::int64_t j) const {
    return h == t_.first_head(g) && i == j ? Accumulate::overwrite : Accumulate::add;
  }

  void add_query(const Tiles& t, const FirstKeys& first, std::int64_t i, std::int64_t j) const {
    const auto E = t_.E, keys = t_.size(j);
    product(t.dq, E, j == first.tile() ? Accumulate::overwrite : Accumulate::add,
            Columns{t.ds, edge}, t.k, E, t_.size(i), E, [&](std::int64_t row) {
              return Part{0, i == j ? std::min(keys, row + block_rows) : keys, 0};
            });
  }

  void store_query(const Tiles& t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    store_tile(rows_of<T>(g_.dq_BTHD, b, i * edge, h), g_.dq_BTHD.stride[1], t.dq, t_.size(i),
               t_.shape.head_dim, t_.E);
  }

  void store_key(const float* dk, const float* dv, std::int64_t b, std::int64_t g, std::int64_t at,
                 std::int64_t n) const {
    const auto D = t_.shape.head_dim;
    store_tile(rows_of<T>(g_.dk_BTGD, b, at, g), g_.dk_BTGD.stride[1], dk, n, D, t_.E);
    store_tile(rows_of<T>(g_.dv_BTGD, b, at, g), g_.dv_BTGD.stride[1], dv, n, D, t_.E);
  }

  void whole(const Tiles& t, float* sums, std::int64_t b, std::int64_t g) const {
    const KeySums sum(sums, t_.tiles * edge, t_.E);
    for (auto h = t_.first_head(g); h < t_.first_head(g + 1); ++h) {
      for (std::int64_t i = 0; i < t_.tiles; ++i) {
        load_query(t, b, h, i);
        const auto keys = first_keys(b, i);
        for (auto j = keys.tile(); j <= i; ++j) {
          load_key(t, b, g, j);
          pair(t, keys, i, j);
          add_key(t, sum.dk + j * edge * t_.E, sum.dv + j * edge * t_.E, i, j, first(h, g, i, j));
          add_query(t, keys, i, j);
        }
        store_query(t, b, h, i);
      }
    }
    store_key(sum.dk, sum.dv, b, g, 0, t_.shape.tokens);
  }

  void key_tile(const Tiles& t, float* sums, std::int64_t b, std::int64_t g, std::int64_t j) const {
    const KeySums sum(sums, edge, t_.E);
    load_key(t, b, g, j);
    for (auto h = t_.first_head(g); h < t_.first_head(g + 1); ++h) {
      for (auto i = j; i < t_.tiles; ++i) {
        const auto keys = first_keys(b, i);
        if (keys.tile() > j) break;  // neither do those behind it see this tile
        load_query(t, b, h, i);
        pair(t, keys, i, j);
        add_key(t, sum.dk, sum.dv, i, j, first(h, g, i, j));
      }
    }
    store_key(sum.dk, sum.dv, b, g, j * edge, t_.size(j));
  }

  void query_tile(const Tiles& t, std::int64_t b, std::int64_t h, std::int64_t i) const {
    load_query(t, b, h, i);
    const auto keys = first_keys(b, i);
    for (auto j = keys.tile(); j <= i; ++j) {
      load_key(t, b, t_.kv_head(h), j);
      pair(t, keys, i, j);
      add_query(t, keys, i, j);
    }
    store_query(t, b, h, i);
  }

 private:
  const kernel::AttentionGrad& g_;
  const Tiling& t_;
};

// How the work is cut for this many threads, and what scratch that takes.
struct Cut {
  explicit Cut(const Tiling& t) : heads(t.shape.batch * t.shape.kv_heads) {
    const auto sums = KeySums::floats(t.tiles * edge, t.E);
    const auto rounds = (heads + threads() - 1) / threads();
    // Split does 7 products of tiles for whole's 5 and keeps all threads busy.
    whole = t.tiles == 1 || (sums * static_cast<std::int64_t>(sizeof(float)) <= most_whole_bytes &&
                             7 * heads >= 5 * rounds * threads());
    slot_floats = Tiles::floats(t.E) + (whole ? sums : KeySums::floats(edge, t.E));
    slots = slots_for(whole ? heads : t.shape.batch * t.shape.heads * t.tiles);
  }
  std::int64_t heads, slot_floats, slots;
  bool whole;
};

template <class T>
void backward(const kernel::AttentionGrad& o, const Tiling& tiling) {
  const Cut cut(tiling);
  const Pass<T> pass(o, tiling);
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
  share(cut.heads * tiling.tiles, [&](std::int64_t unit, std::int64_t slot) {
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

std::size_t attention_grad_workspace(const Tiling& tiling) {
  const Cut cut(tiling);
  return static_cast<std::size_t>(cut.slots * cut.slot_floats) * sizeof(float) + Scratch::alignment;
}

void run(const kernel::AttentionGrad& o, View) {
  check_attention(o.shape, {o.dq_BTHD, o.do_BTHD, o.o_BTHD, o.q_BTHD},
                  {o.dk_BTGD, o.dv_BTGD, o.k_BTGD, o.v_BTGD}, o.lse_BHT, o.workspace, o.start_BT,
                  Direction::backward);
  const Tiling tiling(o.shape);
  if (o.q_BTHD.dtype == DType::bf16)
    backward<bf16>(o, tiling);
  else
    backward<float>(o, tiling);
}

}  // namespace trireme::host
