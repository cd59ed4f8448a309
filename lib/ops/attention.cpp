#include "lib/ops/attention.hpp"

#include <algorithm>
#include <cmath>

namespace trireme::ops {

struct Packed {
  View q_BTHD, k_BTGD, v_BTGD;
};

static Packed unpack(const Tensor& qkv, std::int64_t query, std::int64_t kv, std::int64_t dim) {
  const auto all = qkv.view().reshaped({qkv.shape()[0], qkv.shape()[1], query + 2 * kv, dim});
  return {all.slice(2, 0, query), all.slice(2, query, kv), all.slice(2, query + kv, kv)};
}

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
    const auto p = unpack(qkv, share.query.count, share.kv.count, dim);
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
    for (const auto& c : all) bytes = std::max(bytes, b.attention_workspace(c.shape, t, d));
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
                                            .workspace = scratch.view()});
  }
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
                                                .workspace = scratch.view()});
  }
  return {dqkv};
}

Tensor Rotary::turn(const Run& run, Tensor qkv, Direction direction, Kind kind) const {
  auto& b = run.backend;
  if (!qkv.unique()) {
    Tensor fresh = Tensor::empty(b, qkv.shape(), qkv.dtype(), kind);
    b.put(Queue::compute, kernel::Copy{.dst = fresh.view(), .src = qkv.view()});
    qkv = std::move(fresh);
  }
  const auto p = unpack(qkv, heads_.query, heads_.kv, heads_.dim);
  const auto table = table_.view().slice(0, run.place.rows.t0, qkv.shape()[1]);
  for (const auto& x_BTHD : {p.q_BTHD, p.k_BTGD})
    b.put(Queue::compute,
          kernel::Rotary{.x_BTHD = x_BTHD, .table_T2E = table, .direction = direction});
  return qkv;
}

std::vector<Tensor> Rotary::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  return {turn(run, std::move(in[0]), Direction::forward, kind_of(saved))};
}

std::vector<Tensor> Rotary::input_gradients(const Run& run, std::vector<Tensor>& grad_out, Saved&,
                                            std::span<const std::uint8_t>) const {
  return {turn(run, std::move(grad_out[0]), Direction::backward, Kind::transient)};
}

template <class T>
static void upload_angles(Backend& b, const Tensor& table, double theta) {
  const auto positions = table.shape()[0], half = table.shape()[2];
  const auto chunk = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / (2 * half));  // 4 MiB
  std::vector<T> values;
  for (std::int64_t begin = 0; begin < positions; begin += chunk) {
    const auto n = std::min(chunk, positions - begin);
    values.resize(static_cast<std::size_t>(n * 2 * half));
    for (std::int64_t t = 0; t < n; ++t) {
      auto* const row = values.data() + t * 2 * half;
      for (std::int64_t e = 0; e < half; ++e) {
        const double angle = static_cast<double>(begin + t) *
                             std::pow(theta, -static_cast<double>(e) / static_cast<double>(half));
        row[e] = static_cast<T>(std::cos(angle));
        row[half + e] = static_cast<T>(std::sin(angle));
      }
    }
    b.upload(Queue::compute, table.view().slice(0, begin, n), std::as_bytes(std::span(values)));
  }
}

Tensor rotary_table(Backend& b, std::int64_t positions, std::int64_t dim, double theta, DType t) {
  Tensor table = Tensor::empty(b, {positions, 2, dim / 2}, t, Kind::weights);
  if (t == DType::f64)
    upload_angles<double>(b, table, theta);
  else
    upload_angles<float>(b, table, theta);
  return table;
}

}  // namespace trireme::ops
