#include "lib/ops/attention.hpp"

#include <algorithm>
#include <cmath>

#include "lib/ops/cached_attention.hpp"
#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// One attention call: a group of heads and its part of each tensor.
struct Call {
  HeadGroup group;
  AttentionShape shape;
};

// The calls for a rank's heads, mostly one, and the scratch that they share.
struct Calls {
  Calls(const Run& run, const Heads& h, const Tensor& qkv_BTX)
      : share(head_share(h, run.seq.rank(), run.seq.size())),
        dim(h.dim),
        batch(qkv_BTX.shape()[0]),
        tokens(qkv_BTX.shape()[1]) {
    for (const auto& g : head_groups(h, share))
      all.push_back({g,
                     {batch, tokens, g.query.count, g.kv.count, dim,
                      1 / std::sqrt(static_cast<double>(dim))}});
  }
  Packed packed(const Tensor& qkv, const HeadGroup& g) const {
    const auto p = unpack(qkv, {share.query.count, share.kv.count, dim});
    return {p.q_BTHD.slice(2, g.query.begin, g.query.count),
            p.k_BTGD.slice(2, g.kv.begin, g.kv.count), p.v_BTGD.slice(2, g.kv.begin, g.kv.count)};
  }
  View heads(const Tensor& o, const HeadGroup& g) const {
    return o.view()
        .reshaped({batch, tokens, share.query.count, dim})
        .slice(2, g.query.begin, g.query.count);
  }
  // A group's numbers lie together: [B, h, T].
  View lse(const Tensor& lse, const HeadGroup& g) const {
    return lse.slice(batch * g.query.begin * tokens, {batch, g.query.count, tokens}).view();
  }
  Tensor workspace(Backend& b, DType t, Direction d) const {
    std::size_t bytes = 0;
    for (const auto& c : all) bytes = std::max(bytes, b.attention_bytes(c.shape, t, d).workspace);
    if (bytes == 0) return {};
    return Tensor::empty(b, {static_cast<std::int64_t>((bytes + 3) / 4)}, DType::f32,
                         Kind::workspace);
  }

  HeadShare share;
  std::int64_t dim, batch, tokens;
  std::vector<Call> all;
};

}  // namespace

std::vector<Tensor> Attention::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor qkv = std::move(in[0]);
  if (extends(run)) return {extend(run, heads_, block_, qkv)};
  const Calls calls(run, heads_, qkv);
  const auto query = calls.share.query.count;
  Tensor o =
      Tensor::empty(b, {calls.batch, calls.tokens, query * calls.dim}, qkv.dtype(), kind_of(saved));
  const Tensor lse =
      Tensor::empty(b, {calls.batch, query, calls.tokens}, wide(qkv.dtype()), kind_of(saved));
  const Tensor scratch = calls.workspace(b, qkv.dtype(), Direction::forward);
  for (const auto& [g, shape] : calls.all) {
    const auto p = calls.packed(qkv, g);
    b.put(Queue::compute, kernel::Attention{.o_BTHD = calls.heads(o, g),
                                            .lse_BHT = calls.lse(lse, g),
                                            .q_BTHD = p.q_BTHD,
                                            .k_BTGD = p.k_BTGD,
                                            .v_BTGD = p.v_BTGD,
                                            .shape = shape,
                                            .workspace = scratch.view(),
                                            .start_BT = run.place.start_BT});
  }
  if (run.cached)
    fill(run, block_, unpack(qkv, {calls.share.query.count, calls.share.kv.count, calls.dim}));
  if (saved) *saved = {qkv, o, lse};
  return {o};
}

std::vector<Tensor> Attention::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                               Saved& saved, std::span<const std::uint8_t>) const {
  auto& b = run.backend;
  const Tensor &qkv = saved[0], &o = saved[1], &lse = saved[2];
  const Calls calls(run, heads_, qkv);
  Tensor dqkv = Tensor::empty(b, qkv.shape(), qkv.dtype(), Kind::transient);
  const Tensor scratch = calls.workspace(b, qkv.dtype(), Direction::backward);
  for (const auto& [g, shape] : calls.all) {
    const auto p = calls.packed(qkv, g), d = calls.packed(dqkv, g);
    b.put(Queue::compute, kernel::AttentionGrad{.dq_BTHD = d.q_BTHD,
                                                .dk_BTGD = d.k_BTGD,
                                                .dv_BTGD = d.v_BTGD,
                                                .do_BTHD = calls.heads(grad_out[0], g),
                                                .o_BTHD = calls.heads(o, g),
                                                .lse_BHT = calls.lse(lse, g),
                                                .q_BTHD = p.q_BTHD,
                                                .k_BTGD = p.k_BTGD,
                                                .v_BTGD = p.v_BTGD,
                                                .shape = shape,
                                                .workspace = scratch.view(),
                                                .start_BT = run.place.start_BT});
  }
  return {dqkv};
}

}  // namespace trireme::ops
