// What comparing backends does not show of routers and experts: bits depend neither on the number
// of threads nor on how much scratch there is; what does not fit is refused.
#include <cstring>
#include <string>
#include <vector>

#include "kernels/host/kernels.hpp"
#include "tests/kernels/host_array.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

class HostExperts : public HostKernels {};
INSTANTIATE_TEST_SUITE_P(Types, HostExperts, testing::Values(DType::f32, DType::bf16),
                         [](const auto& t) { return std::string(name_of(t.param)); });

constexpr std::size_t little = std::size_t{512} << 10, plenty = std::size_t{4} << 20;

using Offsets = List<std::int32_t>;

// Pieces of every kind: none, few rows, what is rounded up, whole blocks and their rest.
const Offsets offset{{0, 2, 2, 15, 85, 400}};
constexpr std::int64_t experts = 5, all_rows = 400;

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const auto& p : parts) all.insert(all.end(), p.begin(), p.end());
  return all;
}

template <class T>
Bytes bytes_of(const List<T>& list) {
  Bytes bytes(list.values.size() * sizeof(T));
  std::memcpy(bytes.data(), list.values.data(), bytes.size());
  return bytes;
}

TEST_P(HostExperts, ProductsOfExpertsDependNeitherOnThreadsNorScratch) {
  const std::int64_t N = 600, K = 70;
  const Array a(type(), {all_rows, K}, 1), b(type(), {experts, K * N}, 2);
  for (const bool in_rows : {false, true})
    for (const auto order : {SumOrder::any, SumOrder::by_row}) {
      kernel::GroupedMatmul o{
          .c_RN = {}, .a_RK = a, .offset_E1 = offset.view(), .b_KN = {}, .order = order};
      for (std::int64_t e = 0; e < experts; ++e) {
        const View one = b.view().slice(0, e, 1);
        o.b_KN.push_back(in_rows ? one.reshaped({K, N}) : one.reshaped({N, K}).transposed());
      }
      const auto product = [&](std::size_t bytes) {
        const Array c(type(), {all_rows, N});
        o.c_RN = c;
        host::run(o, scratch(bytes));
        return c.bytes();
      };
      expect_same_on_any_threads([&] { return product(plenty); });
      EXPECT_EQ(product(plenty), product(little));
    }
}

TEST_P(HostExperts, GradientsOfExpertsDependNeitherOnThreadsNorScratch) {
  const std::int64_t M = 300, N = 270;
  const Array a(type(), {all_rows, M}, 1), b(type(), {all_rows, N}, 2);
  Offsets token;
  for (std::int32_t r = 0; r < all_rows; ++r) token.values.push_back(r);
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    for (const bool counted : {false, true}) {
      const auto gradients = [&](std::size_t bytes) {
        kernel::GroupedMatmulGrad o{.c_MN = {},
                                    .how = how,
                                    .a_RM = a,
                                    .b_RN = b,
                                    .offset_E1 = offset.view(),
                                    .token_R = token.view(),
                                    .leaf = 32};
        std::vector<Array> sums;
        std::vector<List<std::int64_t>> counts(
            experts, {std::vector<std::int64_t>(static_cast<std::size_t>(M * N), 3)});
        List<float> largest{{1, 1, 1, 1, 1}};
        sums.reserve(experts);
        for (std::int64_t e = 0; e < experts; ++e) {
          sums.emplace_back(DType::f32, Shape{M, N}, 3);
          o.c_MN.push_back(counted ? counts[static_cast<std::size_t>(e)].view().reshaped({M, N})
                                   : sums.back().view());
          o.largest.push_back(largest.view().slice(0, e, 1));
        }
        host::run(o, scratch(bytes));
        std::vector<Bytes> parts{bytes_of(largest)};
        for (const auto& s : sums) parts.push_back(s.bytes());
        for (const auto& c : counts) parts.push_back(bytes_of(c));
        return joined(parts);
      };
      expect_same_on_any_threads([&] { return gradients(plenty); });
      EXPECT_EQ(gradients(plenty), gradients(little));
    }
}

TEST_P(HostExperts, LossesOfRoutersAreAddedInOrderInAnyScratch) {
  const std::int64_t T = 300, E = 70;
  const Array logits(DType::f32, {T, E}, 1);
  const auto losses = [&](std::size_t bytes) {
    List<double> sums{{0.5, 0.25}};
    host::run(kernel::RouterLosses{.sums = sums.view(), .logits_TE = logits}, scratch(bytes));
    return bytes_of(sums);
  };
  expect_same_on_any_threads([&] { return losses(plenty); });
  EXPECT_EQ(losses(plenty), losses(2 * sizeof(double) * 7));
}

TEST_P(HostExperts, ChoicesAreSortedInAnyScratch) {
  const std::int64_t T = 9000, K = 2, E = 300;
  Offsets choice;
  for (std::int64_t i = 0; i < T * K; ++i)
    choice.values.push_back(static_cast<std::int32_t>(i * i % E));
  const auto sorted = [&](std::size_t bytes) {
    const auto ids = [](std::int64_t n) {
      return Offsets{std::vector<std::int32_t>(static_cast<std::size_t>(n), -1)};
    };
    const Offsets first = ids(E + 1), token = ids(T * K), row = ids(T * K), place = ids(T * K);
    host::run(kernel::SortChoices{.offset_E1 = first.view(),
                                  .token_R = token.view(),
                                  .choice_R = row.view(),
                                  .row_TK = place.view().reshaped({T, K}),
                                  .choice_TK = choice.view().reshaped({T, K})},
              scratch(bytes));
    return joined({bytes_of(first), bytes_of(token), bytes_of(row), bytes_of(place)});
  };
  expect_same_on_any_threads([&] { return sorted(plenty); });
  EXPECT_EQ(sorted(plenty), sorted(static_cast<std::size_t>(E) * sizeof(std::int32_t)));
}

TEST_P(HostExperts, RefusesProductsOfExpertsThatDoNotFit) {
  const std::int64_t R = 4, N = 3, K = 5;
  const Offsets two{{0, 1, R}};
  const Array a(type(), {R, K}, 1), b(type(), {K, N}, 2), c(type(), {R, N}), dw(DType::f32, {K, N}),
      other(type(), {K + 1, N}, 3);
  const auto refused = [&](const auto& o) {
    return message_of<Error>([&] { host::run(o, scratch()); });
  };
  const auto product = [&](const View& second) {
    return kernel::GroupedMatmul{
        .c_RN = c, .a_RK = a, .offset_E1 = two.view(), .b_KN = {b.view(), second}};
  };
  EXPECT_EQ(refused(product(b)), "");
  EXPECT_NE(refused(product(other)).find("an expert's"), std::string::npos);
  auto few = product(b);
  few.b_KN.pop_back();
  EXPECT_NE(refused(few).find("groups"), std::string::npos);

  kernel::GroupedMatmulGrad gradient{
      .c_MN = {dw.view(), View{}}, .a_RM = a, .b_RN = c, .offset_E1 = two.view()};
  EXPECT_EQ(refused(gradient), "");
  gradient.c_MN[1] = View(dw.view().data, DType::i64, {K, N});
  EXPECT_NE(refused(gradient).find("leaves"), std::string::npos);
  gradient.c_MN = {other.view(), View{}};
  EXPECT_NE(refused(gradient).find("a result must be [5, 3]"), std::string::npos);
}

}  // namespace
}  // namespace trireme
