#include "lib/ops/attention.hpp"

#include <cmath>

namespace trireme::ops {

struct Packed {
  View q_BTHD, k_BTGD, v_BTGD;
};

static Packed unpack(const Tensor& qkv, const Heads& h) {
  const auto all = qkv.view().reshaped({qkv.shape()[0], qkv.shape()[1], h.query + 2 * h.kv, h.dim});
  return {all.slice(2, 0, h.query), all.slice(2, h.query, h.kv),
          all.slice(2, h.query + h.kv, h.kv)};
}

static AttentionShape shape_of(const Tensor& qkv, const Heads& h) {
  return {qkv.shape()[0], qkv.shape()[1], h.query,
          h.kv,           h.dim,          1 / std::sqrt(static_cast<double>(h.dim))};
}

static Tensor workspace(Backend& b, const AttentionShape& s, DType t, Direction d) {
  const auto bytes = b.attention_workspace(s, t, d);
  if (bytes == 0) return {};
  return Tensor::empty(b, {static_cast<std::int64_t>((bytes + 3) / 4)}, DType::f32,
                       Kind::workspace);
}

std::vector<Tensor> Attention::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor qkv = std::move(in[0]);
  const auto s = shape_of(qkv, heads_);
  Tensor o =
      Tensor::empty(b, {s.batch, s.tokens, s.heads * s.head_dim}, qkv.dtype(), kind_of(saved));
  const Tensor lse =
      Tensor::empty(b, {s.batch, s.heads, s.tokens}, wide(qkv.dtype()), kind_of(saved));
  const Tensor scratch = workspace(b, s, qkv.dtype(), Direction::forward);
  const auto p = unpack(qkv, heads_);
  b.attention(Queue::compute, o.view().reshaped({s.batch, s.tokens, s.heads, s.head_dim}),
              lse.view(), p.q_BTHD, p.k_BTGD, p.v_BTGD, s, scratch.view());
  if (saved) *saved = {qkv, o, lse};
  return {o};
}

std::vector<Tensor> Attention::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                        std::span<const std::uint8_t>) const {
  auto& b = run.backend;
  const Tensor &qkv = saved[0], &o = saved[1], &lse = saved[2];
  const auto s = shape_of(qkv, heads_);
  Tensor dqkv = Tensor::empty(b, qkv.shape(), qkv.dtype(), Kind::transient);
  const Tensor scratch = workspace(b, s, qkv.dtype(), Direction::backward);
  const auto p = unpack(qkv, heads_), d = unpack(dqkv, heads_);
  const Shape o_BTHD{s.batch, s.tokens, s.heads, s.head_dim};
  b.attention_grad(Queue::compute, d.q_BTHD, d.k_BTGD, d.v_BTGD,
                   grad_out[0].view().reshaped(o_BTHD), o.view().reshaped(o_BTHD), lse.view(),
                   p.q_BTHD, p.k_BTGD, p.v_BTGD, s, scratch.view());
  return {dqkv};
}

Tensor Rotary::turn(const Run& run, Tensor qkv, Direction direction, Kind kind) const {
  auto& b = run.backend;
  if (!qkv.unique()) {
    Tensor fresh = Tensor::empty(b, qkv.shape(), qkv.dtype(), kind);
    b.copy(Queue::compute, fresh.view(), qkv.view());
    qkv = std::move(fresh);
  }
  const auto p = unpack(qkv, heads_);
  const auto table = table_.view().slice(0, run.place.rows.t0, qkv.shape()[1]);
  b.rotary(Queue::compute, p.q_BTHD, table, direction);
  b.rotary(Queue::compute, p.k_BTGD, table, direction);
  return qkv;
}

std::vector<Tensor> Rotary::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  return {turn(run, std::move(in[0]), Direction::forward, kind_of(saved))};
}

std::vector<Tensor> Rotary::backward(const Run& run, std::vector<Tensor> grad_out, Saved,
                                     std::span<const std::uint8_t>) const {
  return {turn(run, std::move(grad_out[0]), Direction::backward, Kind::transient)};
}

template <class T>
static void upload_angles(Backend& b, const Tensor& table, double theta) {
  const auto positions = table.shape()[0], half = table.shape()[2];
  std::vector<T> row(static_cast<std::size_t>(2 * half));
  for (std::int64_t t = 0; t < positions; ++t) {
    for (std::int64_t e = 0; e < half; ++e) {
      const double angle = static_cast<double>(t) *
                           std::pow(theta, -static_cast<double>(e) / static_cast<double>(half));
      row[static_cast<std::size_t>(e)] = static_cast<T>(std::cos(angle));
      row[static_cast<std::size_t>(half + e)] = static_cast<T>(std::sin(angle));
    }
    b.upload(Queue::compute, table.view().slice(0, t, 1), std::as_bytes(std::span(row)));
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
