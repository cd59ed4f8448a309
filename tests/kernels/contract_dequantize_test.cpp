// Weights of 4 bits: the numbers of a record that is written out by hand, and bits of every
// backend.
#include "kernels/nf4.hpp"
#include "tests/support/contract.hpp"

namespace trireme {
namespace {

class DequantizeContract : public ContractTest {
 protected:
  // Records whose codes count up, whose scale bytes count down, with these largest scales.
  static std::vector<std::byte> weights(Lab& lab, DType type, const std::vector<double>& units) {
    const auto records = std::ssize(units);
    std::vector<std::int32_t> codes, scales;
    for (std::int64_t i = 0; i < records * nf4::code_words; ++i)
      codes.push_back(static_cast<std::int32_t>(0x76543210U + 0x11111111U * (i % 16)));
    for (std::int64_t i = 0; i < records * nf4::scale_words; ++i)
      scales.push_back(static_cast<std::int32_t>(0x1820ff10U - static_cast<std::uint32_t>(i)));
    const View y =
        lab.of_type(type, {records * nf4::weights}, std::vector<double>(records * nf4::weights, 5));
    lab.backend.put(
        Queue::compute,
        kernel::Dequantize{.y_N = y,
                           .code_SW = lab.ids(codes).reshaped({records, nf4::code_words}),
                           .scale_SW = lab.ids(scales).reshaped({records, nf4::scale_words}),
                           .unit_S1 = lab.of_type(DType::f32, {records, 1}, units)});
    return lab.bytes(y);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, DequantizeContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

// q of the first four blocks is 16, 255, 32 and 24: half, none, a quarter, and 2^-1.5 of the unit;
// the first words of blocks have the codes 1, 0, 3, 2 .. 7, 6 and, of odd ones, 9, 8 .. 15, 14.
TEST_P(DequantizeContract, ByHand) {
  run([](Lab& lab) {
    const auto bytes = weights(lab, DType::f32, {0.75});
    const auto* y = reinterpret_cast<const float*>(bytes.data());
    const float even[] = {-0.6961928009986877F,
                          -1.0F,
                          -0.39491748809814453F,
                          -0.5250730514526367F,
                          -0.18477343022823334F,
                          -0.28444138169288635F,
                          0.0F,
                          -0.09105003625154495F};
    const float odd[] = {0.16093020141124725F,
                         0.07958029955625534F,
                         0.33791524171829224F,
                         0.24611230194568634F,
                         0.5626170039176941F,
                         0.44070982933044434F,
                         1.0F,
                         0.7229568362236023F};
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(y[i], even[i] * 0.375F) << i;
      EXPECT_EQ(y[64 + i], 0) << i;
      EXPECT_EQ(y[128 + i], even[i] * 0.1875F) << i;
      EXPECT_NEAR(y[192 + i], odd[i] * 0.75F * 0.353553391F, 1e-7F) << i;
    }
  });
}

TEST_P(DequantizeContract, HasTheSameBitsEverywhere) {
  const std::vector<double> units{0.03, 1e-3, 3, 0};
  for (const auto type : {DType::f32, DType::bf16}) {
    std::vector<std::byte> want, got;
    oracle([&](Lab& lab) { want = weights(lab, type, units); });
    run([&](Lab& lab) { got = weights(lab, type, units); });
    EXPECT_EQ(got, want) << name_of(type);
  }
}

}  // namespace
}  // namespace trireme
