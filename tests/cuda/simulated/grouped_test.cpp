// Products of experts: what the host knows of them, and what it asks cuBLASLt for.
#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "lib/base/error.hpp"
#include "lib/tensor/tensor.hpp"
#include "tests/cuda/simulated/blaslt.hpp"
#include "tests/cuda/simulated/streams.hpp"
#include "tests/support/message_of.hpp"

namespace trireme::cuda {
namespace {

using testing::Each;
using testing::ElementsAreArray;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Numbers = std::vector<float>;

constexpr auto queue = Queue::compute;

class SimulatedExperts : public testing::Test {
 protected:
  SimulatedExperts() { simulated::mend(); }

  template <class T>
  Tensor tensor(const Shape& s, const std::vector<T>& values) {
    auto t = Tensor::empty(*backend, s, dtype_of<T>, MemoryKind::transient);
    backend->upload(queue, t.view(), std::as_bytes(std::span(values)));
    return t;
  }
  Tensor numbers(const Shape& s, float each) {
    return tensor(s, Numbers(static_cast<std::size_t>(s.count()), each));
  }
  Numbers read(const Tensor& t) {
    Numbers values(static_cast<std::size_t>(t.shape().count()));
    backend->download(queue, std::as_writable_bytes(std::span(values)), t.view());
    return values;
  }
  void put(const kernel::Operation& o) { backend->put(queue, o); }

  std::unique_ptr<Backend> backend = open_cuda({});
  Workspace workspace{*backend};
};

// Nobody waits between the kernels that make the offsets and the products that need them.
TEST_F(SimulatedExperts, HaveTheRowsThatAKernelBeforeGaveThem) {
  constexpr std::int64_t experts = 3, tokens = 40, width = 8;
  Ids choices;
  for (std::int32_t t = 0; t < tokens; ++t) choices.push_back(t % 4 == 0 ? 2 : 0);
  const auto choice = tensor({tokens, 1}, choices);
  const auto offset = tensor({experts + 1}, Ids{0, 40, 40, 40}), token = tensor({tokens}, choices),
             row = tensor({tokens}, choices), place = tensor({tokens, 1}, choices);
  const auto x = numbers({tokens, width}, 1), y = numbers({tokens, width}, -1);
  std::vector<Tensor> weights, gradients;
  kernel::GroupedMatmul forward{
      .c_RN = y.view(), .a_RK = x.view(), .offset_E1 = offset.view(), .b_KN = {}};
  kernel::GroupedMatmulGrad backward{
      .c_MN = {}, .a_RM = x.view(), .b_RN = x.view(), .offset_E1 = offset.view()};
  for (std::int64_t e = 0; e < experts; ++e) {
    weights.push_back(numbers({width, width}, static_cast<float>(e + 1)));
    gradients.push_back(numbers({width, width}, -1));
    forward.b_KN.push_back(weights.back().view());
    backward.c_MN.push_back(gradients.back().view());
  }

  put(kernel::SortChoices{.offset_E1 = offset.view(),
                          .token_R = token.view(),
                          .choice_R = row.view(),
                          .row_TK = place.view(),
                          .choice_TK = choice.view()});
  put(forward);
  put(backward);

  Numbers want(30 * width, width);
  want.resize(tokens * width, 3 * width);
  EXPECT_THAT(read(y), ElementsAreArray(want));
  EXPECT_THAT(read(gradients[0]), Each(30));
  EXPECT_THAT(read(gradients[1]), Each(0));
  EXPECT_THAT(read(gradients[2]), Each(10));
}

// The device's offsets are wrong, so whoever reads them gives other rows to the experts.
TEST_F(SimulatedExperts, DoNotReadOffsetsThatTheHostKnows) {
  const auto offset = tensor({3}, Ids{0, 0, 0});
  const auto x = numbers({5, 8}, 1), y = numbers({5, 8}, -1), w0 = numbers({8, 8}, 1),
             w1 = numbers({8, 8}, 2), dw0 = numbers({8, 8}, 0), dw1 = numbers({8, 8}, 0);
  put(kernel::GroupedMatmul{.c_RN = y.view(),
                            .a_RK = x.view(),
                            .offset_E1 = offset.view(),
                            .b_KN = {w0.view(), w1.view()},
                            .known_offset = {0, 2, 5}});
  put(kernel::GroupedMatmulGrad{.c_MN = {dw0.view(), dw1.view()},
                                .a_RM = x.view(),
                                .b_RN = x.view(),
                                .offset_E1 = offset.view(),
                                .known_offset = {0, 2, 5}});
  Numbers want(2 * 8, 8);
  want.resize(5 * 8, 16);
  EXPECT_THAT(read(y), ElementsAreArray(want));
  EXPECT_THAT(read(dw0), Each(2));
  EXPECT_THAT(read(dw1), Each(3));
}

// Of every number of rows up to 200: nine powers of two are as many shapes.
TEST_F(SimulatedExperts, LookUpAlgorithmsForFewNumbersOfRows) {
  constexpr std::int64_t most = 200, width = 16;
  const auto w = numbers({width, width}, 1), dw = numbers({width, width}, 0);
  const auto before = simulated::heuristics_asked();
  for (std::int32_t rows = 1; rows <= most; ++rows) {
    const auto offset = tensor({2}, Ids{0, rows});
    const auto x = numbers({rows, width}, 1), y = numbers({rows, width}, 0);
    put(kernel::GroupedMatmul{
        .c_RN = y.view(), .a_RK = x.view(), .offset_E1 = offset.view(), .b_KN = {w.view()}});
    put(kernel::GroupedMatmulGrad{
        .c_MN = {dw.view()}, .a_RM = x.view(), .b_RN = x.view(), .offset_E1 = offset.view()});
    ASSERT_THAT(read(y), Each(width)) << rows;
    ASSERT_THAT(read(dw), Each(rows));
  }
  EXPECT_LE(simulated::heuristics_asked() - before, 2 * 9);
}

TEST_F(SimulatedExperts, AskForNothingThatAGpuDoesNotDo) {
  const auto offset = tensor({2}, Ids{0, 4}), token = tensor({4}, Ids{0, 1, 2, 3});
  const auto x = numbers({4, 8}, 1), w = numbers({8, 8}, 1);
  const auto counts = tensor({8, 8}, std::vector<std::int64_t>(64)), largest = numbers({1}, 0);
  const kernel::GroupedMatmul by_shape{.c_RN = x.view(),
                                       .a_RK = x.view(),
                                       .offset_E1 = offset.view(),
                                       .b_KN = {w.view()},
                                       .order = SumOrder::by_shape};
  const kernel::GroupedMatmulGrad counting{.c_MN = {counts.view()},
                                           .a_RM = x.view(),
                                           .b_RN = x.view(),
                                           .offset_E1 = offset.view(),
                                           .token_R = token.view(),
                                           .leaf = 2,
                                           .largest = {largest.view()}};
  EXPECT_THAT(message_of<Error>([&] { put(by_shape); }), HasSubstr("grouped_matmul: GPUs"));
  EXPECT_THAT(message_of<Error>([&] { put(counting); }),
              HasSubstr("do not support run.exactness = \"invariant\""));
}

// Shared memory holds what a router chooses by.
TEST_F(SimulatedExperts, AreNotTooMany) {
  const auto chosen = [&](std::int64_t experts) {
    Numbers logits(static_cast<std::size_t>(experts));
    std::iota(logits.begin(), logits.end(), 0.0F);
    const auto z = tensor({1, experts}, logits), weight = numbers({1, 2}, 0);
    const auto choice = tensor({1, 2}, Ids{0, 0});
    put(kernel::Route{
        .weight_TK = weight.view(), .choice_TK = choice.view(), .logits_TE = z.view()});
    Ids ids(2);
    backend->download(queue, std::as_writable_bytes(std::span(ids)), choice.view());
    return ids;
  };
  EXPECT_THAT(chosen(14336), testing::ElementsAre(14335, 14334));
  EXPECT_THAT(message_of<Error>([&] { chosen(14337); }), HasSubstr("at most 14336 experts"));
}

}  // namespace
}  // namespace trireme::cuda
