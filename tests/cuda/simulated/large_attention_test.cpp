// Attention on more than 2^31 elements.
#include <cstring>
#include <memory>
#include <type_traits>

#include "tests/cuda/simulated/large.hpp"

namespace trireme::cuda {
namespace {

template <class T>
class LargeAttention : public LargeArrays<T> {};
TYPED_TEST_SUITE(LargeAttention, LargeTypes);

TYPED_TEST(LargeAttention, Attention) {
  using T = TypeParam;
  // All samples and heads read the same rows; what there is of each is beyond 2^31.
  constexpr std::int64_t D = 8, tokens = two_31 / 65535 + 40, samples = 65535;
  static_assert(samples * tokens > two_31);
  const auto q1 = numbers<T>(tokens * D, 1), k1 = numbers<T>(tokens * D, 2),
             v1 = numbers<T>(tokens * D, 3), do1 = numbers<T>(tokens * D, 4);
  const std::int64_t apart = two_31;  // from the first sample of two to the second
  const auto large_rows = [&](const std::vector<T>& rows) {
    auto large = std::make_unique<Large<T>>(apart + tokens * D);
    large->ends_in(rows);
    return large;
  };
  const auto q = large_rows(q1), k = large_rows(k1), v = large_rows(v1), d_o = large_rows(do1),
             o = large_rows(nothing<T>(1)), dq = large_rows(nothing<T>(1)),
             dk = large_rows(nothing<T>(1)), dv = large_rows(nothing<T>(1));
  // n samples `sample` elements apart.
  const auto heads_of = [&](auto* data, std::int64_t sample, std::int64_t n) {
    auto v = view_of(data, {n, tokens, 1, D});
    v.stride[0] = sample;
    return v;
  };
  const auto attend_to = [&](const OnStream& s, T* to, float* lse, const T* qs, const T* ks,
                             const T* vs, std::int64_t sample, std::int64_t n) {
    attend(kernel::Attention{.o_BTHD = heads_of(to, sample, n),
                             .lse_BHT = view_of(lse, {n, 1, tokens}),
                             .q_BTHD = heads_of(qs, sample, n),
                             .k_BTGD = heads_of(ks, sample, n),
                             .v_BTGD = heads_of(vs, sample, n),
                             .shape = {n, tokens, 1, 1, D, 0.5}},
           s.stream);
  };
  auto o1 = nothing<T>(tokens * D), dq1 = o1, dk1 = o1, dv1 = o1;
  auto lse1 = nothing<float>(tokens), delta1 = lse1;
  // The last 8 positions of the second of two samples, and what they would be alone.
  std::vector<float> lse2(static_cast<std::size_t>(2 * tokens)), delta2 = lse2;
  this->last_block([&](const OnStream& s) {
    attend_to(s, o->data(), lse2.data(), q->data(), k->data(), v->data(), apart, 2);
    attend_to(s, o1.data(), lse1.data(), q1.data(), k1.data(), v1.data(), 0, 1);
  });
  const auto tail = [](const auto& all) {
    return std::remove_cvref_t<decltype(all)>(all.end() - 8, all.end());
  };
  // On tensor cores, the last block has the first queries of the last sample. Query 0 sees one key,
  // so its gradient is 0.
  constexpr bool first = std::is_same_v<T, bf16>;
  constexpr std::int64_t row = first ? 1 : tokens - 1;
  const auto expect_row = [&](const Large<T>& large, const std::vector<T>& one, const char* what) {
    const T *const got = large.last(tokens * D) + row * D, *const want = one.data() + row * D;
    EXPECT_EQ(std::memcmp(got, want, D * sizeof(T)), 0) << what;
    EXPECT_NE(std::memcmp(nothing<T>(D).data(), want, D * sizeof(T)), 0) << what;
  };
  expect_row(*o, o1, "o");
  EXPECT_EQ(lse2[tokens + row], lse1[row]);

  this->last_block([&](const OnStream& s) {
    const auto differentiate = [&](auto& to_q, auto& to_k, auto& to_v, const auto& d_rows,
                                   const auto& rows, auto& lse, auto& delta, const auto& qs,
                                   const auto& ks, const auto& vs, std::int64_t sample,
                                   std::int64_t n) {
      attend(kernel::AttentionGrad{.dq_BTHD = heads_of(to_q.data(), sample, n),
                                   .dk_BTGD = heads_of(to_k.data(), sample, n),
                                   .dv_BTGD = heads_of(to_v.data(), sample, n),
                                   .do_BTHD = heads_of(d_rows.data(), sample, n),
                                   .o_BTHD = heads_of(rows.data(), sample, n),
                                   .lse_BHT = view_of(lse.data(), {n, 1, tokens}),
                                   .q_BTHD = heads_of(qs.data(), sample, n),
                                   .k_BTGD = heads_of(ks.data(), sample, n),
                                   .v_BTGD = heads_of(vs.data(), sample, n),
                                   .shape = {n, tokens, 1, 1, D, 0.5},
                                   .workspace = view_of(delta.data(), {n, 1, tokens})},
             s.stream);
    };
    differentiate(*dq, *dk, *dv, *d_o, *o, lse2, delta2, *q, *k, *v, apart, 2);
    differentiate(dq1, dk1, dv1, do1, o1, lse1, delta1, q1, k1, v1, 0, 1);
  });
  expect_row(*dq, dq1, "dq");
  expect_same(*dk, tail(dk1), "dk");
  expect_same(*dv, tail(dv1), "dv");

  // Statistics of more than 2^31 rows.
  const Large<float> lse(samples * tokens);
  this->last_block([&](const OnStream& s) {
    attend_to(s, o1.data(), lse.data(), q1.data(), k1.data(), v1.data(), 0, samples);
  });
  EXPECT_EQ(lse.last(tokens)[row], lse1[row]);
  EXPECT_NE(lse1[row], 0);
}

}  // namespace
}  // namespace trireme::cuda
