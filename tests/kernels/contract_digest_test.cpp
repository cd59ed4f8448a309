// Digests: the formula of lib/base/digest.hpp on every backend, whole and in parts.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "tests/support/contract.hpp"

namespace trireme {
namespace {

class DigestContract : public ContractTest {
 protected:
  static std::vector<std::uint64_t> digests(Lab& lab, std::vector<kernel::Digest::Part> parts) {
    const auto n = parts.size();
    const View out =
        lab.of_type(DType::i64, {static_cast<std::int64_t>(n)}, std::vector<double>(n, 5));
    lab.backend.put(Queue::compute, kernel::Digest{.out_N = out, .parts = std::move(parts)});
    const auto bytes = lab.bytes(out);
    std::vector<std::uint64_t> values(n);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, DigestContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

// i * 2654435761 modulo 2^32 for i < 100, digested by a program in another language.
TEST_P(DigestContract, KnownAnswer) {
  run([](Lab& lab) {
    std::vector<std::int32_t> words;
    for (std::uint32_t i = 0; i < 100; ++i)
      words.push_back(static_cast<std::int32_t>(i * 2654435761U));
    const View x = lab.ids(words);
    const auto d =
        digests(lab, {{.x = x}, {.x = x.slice(0, 32, 68), .first = 32}, {.x = x.slice(0, 0, 32)}});
    EXPECT_EQ(d[0], 0x135dc21639e7260dU);
    EXPECT_EQ(d[1], 0x389604a865b48b36U);
    EXPECT_EQ(d[2], 0xdac7bd6dd4329ad7U);
    EXPECT_EQ(d[0], d[1] + d[2]);
  });
}

// Lengths that end anywhere, more arrays than one launch on a device takes, and long ones.
TEST_P(DigestContract, OfManyArrays) {
  const auto all = [](Lab& lab) {
    std::vector<kernel::Digest::Part> parts;
    for (std::int64_t n = 1; n <= 130; ++n)
      parts.push_back({.x = lab.of_type(n % 2 ? DType::f32 : DType::bf16, {n},
                                        std::vector<double>(static_cast<std::size_t>(n), 0.5))});
    for (const std::int64_t n : {16384, 70001}) {
      std::vector<double> x(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 977) - 400;
      parts.push_back({.x = lab.of_type(DType::f32, {n}, x), .first = 640});
    }
    return digests(lab, std::move(parts));
  };
  std::vector<std::uint64_t> want, got;
  oracle([&](Lab& lab) { want = all(lab); });
  run([&](Lab& lab) { got = all(lab); });
  EXPECT_EQ(got, want);
}

TEST_P(DigestContract, AnyBitShows) {
  run([](Lab& lab) {
    std::vector<std::int32_t> words(40, 7);
    const auto of = [&] { return digests(lab, {{.x = lab.ids(words)}})[0]; };
    const auto before = of();
    for (std::size_t i = 0; i < words.size(); i += 3)
      for (const int bit : {0, 5, 23, 31}) {
        const auto flip = std::bit_cast<std::int32_t>(std::uint32_t{1} << bit);
        words[i] ^= flip;
        EXPECT_NE(of(), before) << "word " << i << ", bit " << bit;
        words[i] ^= flip;
      }
    words[3] = 8;
    const auto one = of();
    std::swap(words[3], words[19]);
    EXPECT_NE(of(), one) << "another block";
    std::swap(words[19], words[11]);
    EXPECT_NE(of(), one) << "another lane";
  });
}

}  // namespace
}  // namespace trireme
