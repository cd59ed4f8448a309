#include "lib/ops/rotary.hpp"

#include <algorithm>
#include <cmath>

#include "lib/ops/support.hpp"

namespace trireme::ops {

Tensor Rotary::turn(const Run& run, Tensor qkv, Direction direction, MemoryKind kind) const {
  qkv = owned(run, std::move(qkv), kind);
  const auto p = unpack(qkv, heads_);
  const auto& position_BT = run.pass.position_BT;
  const View table =
      position_BT ? table_.view() : table_.view().slice(0, run.pass.rows.t0, qkv.shape()[1]);
  for (const auto& x_BTHD : {p.q_BTHD, p.k_BTGD})
    run.backend.put(Queue::compute, kernel::Rotary{.x_BTHD = x_BTHD,
                                                   .table_T2E = table,
                                                   .direction = direction,
                                                   .position_BT = position_BT});
  return qkv;
}

std::vector<Tensor> Rotary::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  return {turn(run, std::move(in[0]), Direction::forward, kind_of(saved))};
}

std::vector<Tensor> Rotary::input_gradients(const Run& run, std::vector<Tensor>& grad_out, Saved&,
                                            std::span<const std::uint8_t>) const {
  return {turn(run, std::move(grad_out[0]), Direction::backward, MemoryKind::transient)};
}

template <class T>
static void upload_angles(Backend& b, const Tensor& table, std::span<const double> frequency_E,
                          double amplitude) {
  const auto positions = table.shape()[0], half = table.shape()[2];
  const auto chunk = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / (2 * half));  // 4 MiB
  std::vector<T> values;
  for (std::int64_t begin = 0; begin < positions; begin += chunk) {
    const auto n = std::min(chunk, positions - begin);
    values.resize(static_cast<std::size_t>(n * 2 * half));
    for (std::int64_t t = 0; t < n && b.keeps_values(); ++t) {
      auto* const row = values.data() + t * 2 * half;
      for (std::int64_t e = 0; e < half; ++e) {
        const double frequency = frequency_E[static_cast<std::size_t>(e)];
        const double angle = static_cast<double>(begin + t) * frequency;
        const double size = frequency == 0 ? 1 : amplitude;
        row[e] = static_cast<T>(size * std::cos(angle));
        row[half + e] = static_cast<T>(size * std::sin(angle));
      }
    }
    b.upload(Queue::compute, table.view().slice(0, begin, n), std::as_bytes(std::span(values)));
  }
}

Tensor rotary_table(Backend& b, std::int64_t positions, std::span<const double> frequency_E,
                    double amplitude, DType t) {
  Tensor table = Tensor::empty(b, {positions, 2, std::ssize(frequency_E)}, t, MemoryKind::weights);
  if (t == DType::f64)
    upload_angles<double>(b, table, frequency_E, amplitude);
  else
    upload_angles<float>(b, table, frequency_E, amplitude);
  return table;
}

}  // namespace trireme::ops
