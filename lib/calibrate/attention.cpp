// Rates of attention by length and head dim, and on a device also within documents. Queries, keys
// and values are side by side in one row, as in a model.
#include <algorithm>
#include <vector>

#include "lib/calibrate/calibrate.hpp"
#include "lib/calibrate/operands.hpp"
#include "lib/plan/document_lengths.hpp"

namespace trireme {
namespace {

constexpr std::int64_t heads = 4;

struct Rates {
  double forward, backward;
};

// Documents in a sample of several times their length. They begin at positions that do not fit the
// tiles of kernels.
struct Documents {
  static constexpr std::int64_t of_sample = 4;
  std::int64_t length, offset;

  explicit Documents(std::int64_t tokens) : length(tokens), offset(tokens * 3 / 8 + 1) {}
  std::int64_t sample() const { return of_sample * length; }
  std::int64_t start(std::int64_t t) const {
    return std::max<std::int64_t>(0, (t + offset) / length * length - offset);
  }
  double share_of_pairs() const {
    return DocumentLengths{.context = sample(),
                           .lengths = {{length, of_sample - 1}, {length - offset, 1}, {offset, 1}}}
        .share_of_pairs(0);
  }
  // Length of a causal sample with the same mean number of keys per query.
  double same_mean() const { return share_of_pairs() * static_cast<double>(sample()); }
};

// Returns the start of each position's document for all samples, or nothing.
Tensor starts_of(Backend& b, std::int64_t samples, const Documents* documents) {
  if (!documents) return {};
  const auto tokens = documents->sample();
  std::vector<std::int32_t> start;
  for (std::int64_t i = 0; i < samples * tokens; ++i)
    start.push_back(static_cast<std::int32_t>(documents->start(i % tokens)));
  Tensor start_BT = Tensor::empty(b, {samples, tokens}, DType::i32, MemoryKind::transient);
  b.upload(Queue::compute, start_BT.view(), std::as_bytes(std::span(start)));
  return start_BT;
}

// Measures samples of `tokens` tokens or, if given, samples of documents.
Rates rates(Backend& b, const Stopwatch& watch, DType t, std::int64_t head_dim, std::int64_t tokens,
            std::int64_t samples, const Documents* documents) {
  AttentionShape shape{samples, tokens, heads, heads, head_dim, 0.125};
  shape.documents = documents != nullptr;
  const Tensor start_BT = starts_of(b, samples, documents);
  const double pairs = documents ? documents->share_of_pairs() : 1;
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
                             .workspace = scratch(memory, Direction::forward),
                             .start_BT = start_BT.view()};
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
                                 .workspace = scratch(memory, Direction::backward),
                                 .start_BT = start_BT.view()};
  });
  return {pairs * attention_flops(shape, Direction::forward) / there,
          pairs * attention_flops(shape, Direction::backward) / back};
}

// Measures with enough samples to keep a device busy: adds samples until a call takes long enough.
Rates rates(Backend& b, const Stopwatch& watch, DType t, std::int64_t head_dim, std::int64_t length,
            AttentionSpan span) {
  const Documents documents(length);
  const bool within = span == AttentionSpan::document;
  const auto tokens = within ? documents.sample() : length;
  constexpr std::int64_t most = 256, times_more = 8;
  constexpr double a_while = 1e-3;  // seconds
  for (std::int64_t samples = tokens < 256 ? 4 : 1;;
       samples = std::min(most, times_more * samples)) {
    const auto found = rates(b, watch, t, head_dim, tokens, samples, within ? &documents : nullptr);
    const AttentionShape shape{samples, tokens, heads, heads, head_dim, 0.125};
    const double seconds = (within ? documents.share_of_pairs() : 1) *
                           attention_flops(shape, Direction::forward) / found.forward;
    if (seconds > a_while || samples == most) return found;
  }
}

}  // namespace

std::vector<AttentionRates> attention_rates(Backend& b, const Stopwatch& watch, DType t) {
  std::vector<AttentionRates> all;
  std::vector spans = {AttentionSpan::causal};
  if (!b.host_readable()) spans.push_back(AttentionSpan::document);  // other kernels
  for (const std::int64_t head_dim : {32, 64, 128})
    for (const auto span : spans) {
      AttentionRates forward{t, Direction::forward, head_dim, {}, {}, span};
      AttentionRates backward{t, Direction::backward, head_dim, {}, {}, span};
      for (const std::int64_t tokens : {32, 64, 128, 256, 512, 1024}) {
        const auto r = rates(b, watch, t, head_dim, tokens, span);
        const double causal = span == AttentionSpan::causal ? static_cast<double>(tokens)
                                                            : Documents(tokens).same_mean();
        for (auto* direction : {&forward, &backward}) {
          direction->tokens.push_back(causal);
          direction->flops.push_back(direction == &forward ? r.forward : r.backward);
        }
      }
      all.push_back(std::move(forward));
      all.push_back(std::move(backward));
    }
  return all;
}

}  // namespace trireme
