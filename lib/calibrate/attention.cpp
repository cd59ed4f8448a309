// Rates of attention by length and head dim. Queries, keys and values are side by side in one row,
// as in a model.
#include <algorithm>

#include "lib/calibrate/calibrate.hpp"
#include "lib/calibrate/operands.hpp"

namespace trireme {
namespace {

constexpr std::int64_t heads = 4;

struct Rates {
  double forward, backward;
};

Rates rates(Backend& b, const Stopwatch& watch, DType t, std::int64_t head_dim, std::int64_t tokens,
            std::int64_t samples) {
  const AttentionShape shape{samples, tokens, heads, heads, head_dim, 0.125};
  const Shape packed{samples, tokens, 3 * heads, head_dim}, own{samples, tokens, heads, head_dim};
  const auto part = [](const View& v, std::int64_t i) { return v.slice(2, i * heads, heads); };
  const auto scratch = [&](SampleOperands& memory, Direction d) {
    const auto bytes = b.attention_bytes(shape, t, d).workspace;
    return bytes > 0 ? memory.take(DType::f32, {static_cast<std::int64_t>((bytes + 3) / 4)})
                     : View{};
  };
  const double there = seconds_of_calls(b, watch, [&](SampleOperands& memory) {
    const View qkv = memory.take(t, packed);
    return kernel::Attention{.o_BTHD = memory.take(t, own),
                             .lse_BHT = memory.take(wide(t), {samples, heads, tokens}),
                             .q_BTHD = part(qkv, 0),
                             .k_BTGD = part(qkv, 1),
                             .v_BTGD = part(qkv, 2),
                             .shape = shape,
                             .workspace = scratch(memory, Direction::forward)};
  });
  const double back = seconds_of_calls(b, watch, [&](SampleOperands& memory) {
    const View qkv = memory.take(t, packed), dqkv = memory.take(t, packed);
    return kernel::AttentionGrad{.dq_BTHD = part(dqkv, 0),
                                 .dk_BTGD = part(dqkv, 1),
                                 .dv_BTGD = part(dqkv, 2),
                                 .do_BTHD = memory.take(t, own),
                                 .o_BTHD = memory.take(t, own),
                                 .lse_BHT = memory.take(wide(t), {samples, heads, tokens}),
                                 .q_BTHD = part(qkv, 0),
                                 .k_BTGD = part(qkv, 1),
                                 .v_BTGD = part(qkv, 2),
                                 .shape = shape,
                                 .workspace = scratch(memory, Direction::backward)};
  });
  return {attention_flops(shape, Direction::forward) / there,
          attention_flops(shape, Direction::backward) / back};
}

// Measures with enough samples to keep a device busy: adds samples until a call takes long enough.
Rates rates(Backend& b, const Stopwatch& watch, DType t, std::int64_t head_dim,
            std::int64_t tokens) {
  constexpr std::int64_t most = 256, times_more = 8;
  constexpr double a_while = 1e-3;  // seconds
  for (std::int64_t samples = tokens < 256 ? 4 : 1;;
       samples = std::min(most, times_more * samples)) {
    const auto found = rates(b, watch, t, head_dim, tokens, samples);
    const AttentionShape shape{samples, tokens, heads, heads, head_dim, 0.125};
    const double seconds = attention_flops(shape, Direction::forward) / found.forward;
    if (seconds > a_while || samples == most) return found;
  }
}

}  // namespace

std::vector<AttentionRates> attention_rates(Backend& b, const Stopwatch& watch, DType t) {
  std::vector<AttentionRates> all;
  for (const std::int64_t head_dim : {32, 64, 128}) {
    AttentionRates forward{t, Direction::forward, head_dim, {}, {}};
    AttentionRates backward{t, Direction::backward, head_dim, {}, {}};
    for (const std::int64_t tokens : {32, 64, 128, 256, 512, 1024}) {
      const auto r = rates(b, watch, t, head_dim, tokens);
      for (auto* direction : {&forward, &backward}) {
        direction->tokens.push_back(static_cast<double>(tokens));
        direction->flops.push_back(direction == &forward ? r.forward : r.backward);
      }
    }
    all.push_back(std::move(forward));
    all.push_back(std::move(backward));
  }
  return all;
}

}  // namespace trireme
