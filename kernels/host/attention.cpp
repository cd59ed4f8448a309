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

  float *rows, *qT, *s, *o, *max, *sum, *shrink;
};

// s becomes exp(s - max), 0 where hidden; updates max, sum and the factor by which earlier results
// shrink.
void softmax_tile(const Tiles& t, std::int64_t keys, std::int64_t queries, bool first,
                  const TileMask& mask) {
  using limits = std::numeric_limits<float>;
  // A query that has seen no key yet must not come to infinity less infinity.
  const Vec lowest = Vec{} - (mask.first ? limits::max() / 2 : limits::infinity());
  for (std::int64_t column = 0; column < queries; column += lanes) {
    float* s = t.s + column;
    const Vec before = first ? lowest : load(t.max + column);
    std::array<Vec, 4> most{before, before, before, before};  // four chains hide the latency
    for_keys(column, keys, mask, [&](std::int64_t key, VecInt seen) {
      auto& m = most[key % 4];
      m = larger(seen ? load(s + key * edge) : lowest, m);
    });
    const Vec max = larger(larger(most[0], most[1]), larger(most[2], most[3]));
    const Vec shrink = first ? Vec{} : exp_below(before - max);
    Vec sum = first ? Vec{} : load(t.sum + column) * shrink;
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

template <class T>
void query_tile(const kernel::Attention& a, const Tiling& tiling, std::int64_t b, std::int64_t h,
                std::int64_t i, const Tiles& t) {
  const ConstView &q = a.q_BTHD, &k = a.k_BTGD, &v = a.v_BTGD;
  const View &o = a.o_BTHD, &lse = a.lse_BHT;
  const auto D = tiling.shape.head_dim, E = tiling.E, queries = tiling.size(i);
  const auto g = tiling.kv_head(h);
  load_transposed(t.qT, rows_of<T>(q, b, i * edge, h), q.stride[1], queries, D, E,
                  static_cast<float>(tiling.shape.scale), t.rows);

  const FirstKeys first_keys(a.start_BT, b, i * edge, queries);
  const auto first = first_keys.tile();
  for (auto j = first; j <= i; ++j) {
    const TileMask mask(first_keys, i, j);
    const bool diagonal = mask.diagonal;
    const auto keys = tiling.size(j);
    load_tile(t.rows, rows_of<T>(k, b, j * edge, g), k.stride[1], keys, D, E);
    score_tile(t.s, t.rows, t.qT, keys, queries, tiling, diagonal);
    softmax_tile(t, keys, queries, j == first, mask);
    if (j > first) {
      for (std::int64_t r = 0; r < queries; ++r) {
        for (std::int64_t e = 0; e < E; ++e) t.o[r * E + e] *= t.shrink[r];
      }
    }
    load_tile(t.rows, rows_of<T>(v, b, j * edge, g), v.stride[1], keys, D, E);
    product(t.o, E, j == first ? Accumulate::overwrite : Accumulate::add, Columns{t.s, edge},
            t.rows, E, queries, E, [&](std::int64_t row) {
              return Part{0, diagonal ? std::min(keys, row + block_rows) : keys, 0};
            });
  }

  auto* lse_row = reinterpret_cast<float*>(lse.data) + b * lse.stride[0] + h * lse.stride[1];
  for (std::int64_t r = 0; r < edge; ++r) t.max[r] += math::log(t.sum[r]);
  for (std::int64_t r = 0; r < queries; ++r) {
    lse_row[(i * edge + r) * lse.stride[2]] = t.max[r];
    store_row(rows_of<T>(o, b, i * edge + r, h), t.o + r * E, D, 1 / t.sum[r]);
  }
}

template <class T>
void forward(const kernel::Attention& a, const Tiling& tiling) {
  const auto& shape = tiling.shape;
  const auto heads = shape.batch * shape.heads;
  const auto slot_floats = Tiles::floats(tiling.E);
  float* scratch = Scratch(a.workspace.data).floats(0);
  // The long tiles first, so that the threads end together.
  share(heads * tiling.tiles, [&](std::int64_t unit, std::int64_t slot) {
    const auto i = tiling.tiles - 1 - unit / heads, head = unit % heads;
    const Tiles t(Scratch(reinterpret_cast<std::byte*>(scratch + slot * slot_floats)), tiling.E);
    query_tile<T>(a, tiling, head / shape.heads, head % shape.heads, i, t);
  });
}

}  // namespace

std::size_t attention_workspace(const AttentionShape& shape, DType, Direction direction) {
  const Tiling tiling(shape);
  if (direction == Direction::backward) return attention_grad_workspace(tiling);
  const auto slots = slots_for(shape.batch * shape.heads * tiling.tiles);
  return static_cast<std::size_t>(slots * Tiles::floats(tiling.E)) * sizeof(float) +
         Scratch::alignment;
}

void run(const kernel::Attention& o, View) {
  check_attention(o.shape, {o.o_BTHD, o.q_BTHD}, {o.k_BTGD, o.v_BTGD}, o.lse_BHT, o.workspace,
                  o.start_BT, Direction::forward);
  const Tiling tiling(o.shape);
  if (o.q_BTHD.dtype == DType::bf16)
    forward<bf16>(o, tiling);
  else
    forward<float>(o, tiling);
}

void check_attention(const AttentionShape& s, std::initializer_list<ConstView> query_side,
                     std::initializer_list<ConstView> key_side, const ConstView& lse,
                     const View& workspace, const ConstView& start_BT, Direction direction) {
  require(s.head_dim >= 1 && s.head_dim <= max_head_dim,
          "attention: a head dim of {} is not supported; use 1 to {}", s.head_dim, max_head_dim);
  require(s.kv_heads >= 1 && s.kv_heads <= s.heads,
          "attention: {} key/value heads cannot serve {} query heads; use at most as many",
          s.kv_heads, s.heads);
  const auto type = query_side.begin()->dtype;
  require(type == DType::f32 || type == DType::bf16,
          "attention: {} is not computed on this backend; use f32 or bf16, or the ref backend",
          name_of(type));
  const auto check = [&](const ConstView& v, std::int64_t heads) {
    require(v.dims == 4 && v.extent[0] == s.batch && v.extent[1] == s.tokens &&
                v.extent[2] == heads && v.extent[3] == s.head_dim,
            "attention: an operand [{}, {}, {}, {}] is not [{}, {}, {}, {}]", v.extent[0],
            v.extent[1], v.extent[2], v.extent[3], s.batch, s.tokens, heads, s.head_dim);
    require(v.dtype == type, "attention: operands are {} and {}: cast to one type", name_of(type),
            name_of(v.dtype));
    require(v.stride[3] == 1 || s.head_dim == 1,
            "attention: the last dim has stride {}: copy it into a dense view first", v.stride[3]);
  };
  for (const auto& v : query_side) check(v, s.heads);
  for (const auto& v : key_side) check(v, s.kv_heads);
  require(lse.dims == 3 && lse.dtype == DType::f32 && lse.extent[0] == s.batch &&
              lse.extent[1] == s.heads && lse.extent[2] == s.tokens,
          "attention: lse is not f32 [{}, {}, {}]", s.batch, s.heads, s.tokens);
  require(!start_BT || (start_BT.dims == 2 && start_BT.dtype == DType::i32 &&
                        start_BT.extent[0] == s.batch && start_BT.extent[1] == s.tokens),
          "attention: documents' starts are not i32 [{}, {}]", s.batch, s.tokens);
  const auto needed = attention_workspace(s, type, direction);
  require(workspace.span_bytes() >= needed,
          "attention: the workspace has {} bytes and needs {}: ask attention_workspace with the "
          "threads of the run",
          workspace.span_bytes(), needed);
}

}  // namespace trireme::host
