#include "lib/shard/kept.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/math/nf4.hpp"
#include "kernels/nf4.hpp"
#include "lib/base/error.hpp"

namespace trireme {

static DType type_of_kept(BaseType base, DType computed) {
  switch (base) {
    case BaseType::bf16:
      return DType::bf16;
    case BaseType::nf4:
      return DType::i32;
    case BaseType::compute:
      break;
  }
  return computed;
}

StorageType::StorageType(const Segment& s, DType computed)
    : base_(s.kept), type_(type_of_kept(s.kept, computed)), computed_(computed) {}

std::int64_t StorageType::count(std::int64_t weights) const {
  return in_records() ? (weights + nf4::weights - 1) / nf4::weights * nf4::record_words : weights;
}

void put_widened(Backend& b, View y_N, ConstView kept) {
  if (kept.dtype != DType::i32) return b.put(Queue::compute, kernel::Copy{.dst = y_N, .src = kept});
  const auto records_SW = kept.reshaped({kept.count() / nf4::record_words, nf4::record_words});
  auto unit_S1 = records_SW.slice(1, nf4::unit_word, 1);
  unit_S1.dtype = DType::f32;
  b.put(Queue::compute,
        kernel::Dequantize{.y_N = y_N,
                           .code_SW = records_SW.slice(1, 0, nf4::code_words),
                           .scale_SW = records_SW.slice(1, nf4::code_words, nf4::scale_words),
                           .unit_S1 = unit_S1});
}

namespace {

using Codes = std::array<std::uint8_t, nf4::block>;

// Midpoints between consecutive codes. A weight above a midpoint gets the higher code.
constexpr auto bounds = [] {
  std::array<float, 15> all{};
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>((double{math::nf4_codes[i]} + double{math::nf4_codes[i + 1]}) / 2);
  return all;
}();

// Returns the code of x, which is the number of midpoints below x.
std::uint8_t code_of(float x) {
  std::size_t n = 0;
  for (const std::size_t half : {8, 4, 2, 1}) n += x > bounds[n + half - 1] ? half : 0;
  return static_cast<std::uint8_t>(n);
}

// Sets the codes of x / scale. The rest of the block gets the code of 0.
void encode(std::span<const float> x, float scale, Codes& codes) {
  codes.fill(code_of(0));
  if (scale == 0) return;
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = code_of(x[i] / scale);
}

// A block's scale, stored as a byte relative to the record's largest magnitude. The byte with the
// nearest logarithm is chosen. Scales below the smallest one that a byte can represent are replaced
// by the smallest one.
struct Scale {
  Scale(float largest, float unit) {
    if (largest == 0) return;
    const auto steps = std::lround(16 * std::log2(double{unit} / double{largest}));
    q = static_cast<std::uint8_t>(std::min<long>(steps, smallest));
    of_codes = steps <= smallest ? largest : math::nf4_scale(unit, smallest);
  }
  static constexpr std::uint8_t smallest = math::nf4_nothing - 1;
  std::uint8_t q = math::nf4_nothing;
  // Divisor for the codes. The block's largest magnitude is more accurate than the scale in the
  // byte.
  float of_codes = 0;
};

// Writes one record. Returns the index of the first weight that is not finite, or -1 if all are.
std::int64_t put_record(std::span<const float> weights, std::byte* record) {
  std::array<float, nf4::blocks> largest{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i])) return static_cast<std::int64_t>(i);
    auto& of_block = largest[i / nf4::block];
    of_block = std::max(of_block, std::fabs(weights[i]));
  }
  const float unit = *std::ranges::max_element(largest);
  std::byte* const scales = record + nf4::code_words * 4;
  for (std::size_t b = 0; b < nf4::blocks; ++b) {
    const Scale scale(largest[b], unit);
    scales[b] = static_cast<std::byte>(scale.q);
    const auto begin = b * nf4::block;
    if (begin >= weights.size()) continue;
    Codes codes{};
    encode(weights.subspan(begin, std::min<std::size_t>(nf4::block, weights.size() - begin)),
           scale.of_codes, codes);
    for (std::size_t i = 0; i < codes.size(); i += 2)
      record[(begin + i) / 2] = static_cast<std::byte>(codes[i] << 4 | codes[i + 1]);
  }
  std::memcpy(scales + nf4::blocks, &unit, sizeof unit);
  return -1;
}

}  // namespace

std::vector<std::int32_t> records_of(std::span<const float> weights, std::string_view name,
                                     std::int64_t first) {
  constexpr auto each = static_cast<std::size_t>(nf4::weights);
  const auto records = (weights.size() + each - 1) / each;
  std::vector<std::int32_t> words(records * static_cast<std::size_t>(nf4::record_words));
  const auto bytes = std::as_writable_bytes(std::span(words));
  for (std::size_t r = 0; r < records; ++r) {
    const auto begin = r * each;
    const auto bad = put_record(weights.subspan(begin, std::min(each, weights.size() - begin)),
                                bytes.data() + r * nf4::record_words * sizeof(std::int32_t));
    require(bad < 0,
            "{}: weight {} is not finite, and 4 bits cannot represent it; set adapter.base = "
            "\"compute\", or repair the weights of the base model",
            name, first + static_cast<std::int64_t>(begin) + bad);
  }
  return words;
}

}  // namespace trireme
