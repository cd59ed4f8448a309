// What operations take, and that what is not known is refused by name.
#include "lib/predict/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ref/ref.hpp"
#include "lib/predict/workloads.hpp"
#include "lib/tensor/tensor.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {

using testing::HasSubstr;

static Workload product(std::int64_t m, std::int64_t n, std::int64_t k) {
  Workload a;
  a.name = "matmul";
  a.m = {m, n, k};
  a.layout = MatmulLayout::nn;
  a.flops = 2 * static_cast<double>(m * n * k);
  return a;
}

static std::string refusal(const MachineModel& m, const Workload& a) {
  return message_of([&] { seconds_of(m, a); });
}

TEST(MachineModel, InterpolatesBetweenMeasuredSizes) {
  const std::vector<double> x{1, 100}, y{2, 8};

  EXPECT_NEAR(interpolate(x, y, 10, Extrapolation::constant), 4,
              1e-12);  // halfway in both logarithms
  EXPECT_EQ(interpolate(x, y, 0.5, Extrapolation::constant), 2);
  EXPECT_NEAR(interpolate(x, y, 1000, Extrapolation::constant), 8, 1e-12);
  EXPECT_NEAR(interpolate(x, y, 1000, Extrapolation::proportional), 80, 1e-12);
  EXPECT_EQ(interpolate(x, y, 0.5, Extrapolation::proportional), 2);
  EXPECT_NEAR(interpolate({100}, {8}, 1, Extrapolation::proportional), 0.08, 1e-12);
}

TEST(MachineModel, ProductsTakeTheRateOfTheirSizeTypeAndLayout) {
  MachineModel m = test::plain_machine("host");
  m.memory_bandwidth.reset();
  m.products = {
      {.dtype = DType::f32, .layout = MatmulLayout::nt, .m = {8}, .n = {8}, .k = {8}, .flops = {1}},
      {.dtype = DType::f32,
       .layout = MatmulLayout::nn,
       .m = {8, 32},
       .n = {8},
       .k = {8, 32},
       .flops = {1e3, 2e3, 4e3, 8e3}}};

  EXPECT_NEAR(seconds_of(m, product(8, 8, 8)), 1024 / 1e3, 1e-9);
  EXPECT_NEAR(seconds_of(m, product(32, 8, 8)), 4096 / 4e3, 1e-9);
  EXPECT_NEAR(seconds_of(m, product(8, 8, 32)), 4096 / 2e3, 1e-9);
  EXPECT_NEAR(seconds_of(m, product(16, 8, 8)), 2048 / 2e3, 1e-9);
}

TEST(MachineModel, AProductIsNoFasterThanItsMemory) {
  MachineModel m = test::plain_machine("host");
  auto a = product(8, 8, 8);
  a.bytes = 1e6;

  EXPECT_NEAR(seconds_of(m, a), 1e-3, 1e-12);
}

TEST(MachineModel, ALinkIsSharedOut) {
  auto m = test::plain_machine("host");
  m.far = {.latency = 1e-6, .bandwidth = 8e9, .shared_by = 4};
  EXPECT_DOUBLE_EQ(share_of(m, m.far, "far"), 2e9);
}

// C of 2 x 5, sums over 3.
TEST(Workloads, OfProducts) {
  Ref ref;
  const auto floats = [&](const Shape& s) {
    return Tensor::empty(ref, s, DType::f32, MemoryKind::transient);
  };
  const auto c = floats({2, 5}), mk = floats({2, 3}), km = floats({3, 2}), kn = floats({3, 5}),
             nk = floats({5, 3});
  const auto workload = [&](ConstView a, ConstView b, Accumulate how) {
    const kernel::Matmul o{.c_MN = c.view(), .a_MK = a, .b_KN = b, .how = how};
    return workloads_of(o, EpilogueTime::fused).at(0);
  };
  const auto x_w = workload(mk.view(), nk.view().transposed(), Accumulate::overwrite),
             dy_w = workload(mk.view(), kn.view(), Accumulate::overwrite),
             dy_x = workload(km.view().transposed(), kn.view(), Accumulate::add);
  EXPECT_EQ(x_w.layout, MatmulLayout::nt);
  EXPECT_EQ(dy_w.layout, MatmulLayout::nn);
  EXPECT_EQ(dy_x.layout, MatmulLayout::tn);
  EXPECT_EQ(x_w.m, (std::array<std::int64_t, 3>{2, 5, 3}));
  EXPECT_EQ(x_w.flops, 2 * 2 * 5 * 3);
  EXPECT_EQ(x_w.bytes, 4 * (6 + 15 + 10));
  EXPECT_EQ(dy_x.bytes, 4 * (6 + 15 + 2 * 10));  // what is added to is read, too
}

// Each of 4,096 queries, but the first few, sees 64 keys: as those of 128 tokens do on average.
TEST(Workloads, OfAttentionInAWindow) {
  Ref ref;
  const auto floats = [&](const Shape& s) {
    return Tensor::empty(ref, s, DType::f32, MemoryKind::transient);
  };
  const auto q = floats({1, 4096, 1, 8}), o = floats({1, 4096, 1, 8}), lse = floats({1, 1, 4096});
  const auto workload = [&](std::int64_t window) {
    const kernel::Attention a{.o_BTHD = o.view(),
                              .lse_BHT = lse.view(),
                              .q_BTHD = q.view(),
                              .k_BTGD = q.view(),
                              .v_BTGD = q.view(),
                              .shape = {1, 4096, 1, 1, 8, 1, window}};
    return workloads_of(a, EpilogueTime::fused).at(0);
  };
  EXPECT_EQ(workload(0).tokens, 4096);
  EXPECT_EQ(workload(0).flops, 4.0 * 8 * 4096 * 4096 / 2);
  EXPECT_EQ(workload(64).tokens, 127);
  EXPECT_EQ(workload(64).flops, 4.0 * 8 * (64 * 4096 - 64 * 64 / 2));
  EXPECT_EQ(workload(5000).flops, workload(0).flops);
}

// In two documents, half as many keys are seen, up to a key more or less for each query.
TEST(Workloads, OfAttentionWithinDocuments) {
  Ref ref;
  const auto floats = [&](const Shape& s) {
    return Tensor::empty(ref, s, DType::f32, MemoryKind::transient);
  };
  const auto q = floats({1, 4096, 1, 8}), o = floats({1, 4096, 1, 8}), lse = floats({1, 1, 4096});
  const auto start = Tensor::empty(ref, {1, 4096}, DType::i32, MemoryKind::transient);
  kernel::Attention a{.o_BTHD = o.view(),
                      .lse_BHT = lse.view(),
                      .q_BTHD = q.view(),
                      .k_BTGD = q.view(),
                      .v_BTGD = q.view(),
                      .shape = {1, 4096, 1, 1, 8, 1}};
  const DocumentLengths two{.context = 4096, .lengths = {{2048, 2}}};
  const auto causal = workloads_of(a, EpilogueTime::fused, two).at(0);
  a.start_BT = start.view();
  const auto within = workloads_of(a, EpilogueTime::fused, two).at(0);
  EXPECT_EQ(causal.tokens, 4096);
  EXPECT_NEAR(within.flops / causal.flops, 0.5, 1.0 / 4096);
  EXPECT_NEAR(static_cast<double>(within.tokens), 2048, 1);
  EXPECT_FALSE(causal.within_documents);
  EXPECT_TRUE(within.within_documents);
}

// On a device, other kernels compute attention within documents.
TEST(Machine, RatesWithinDocumentsAreTheirOwn) {
  auto m = test::plain_machine("cuda");
  m.measured = false;
  Workload within;
  within.name = "attention_grad";
  within.dtype = DType::bf16;
  within.flops = 2e9;
  within.tokens = 512;
  within.head_dim = 4;
  within.within_documents = true;
  EXPECT_FALSE(times_documents(m, DType::bf16, 4));
  EXPECT_DOUBLE_EQ(seconds_of(m, within), 2);  // at the causal rate

  m.attention.push_back(
      {DType::bf16, Direction::backward, 4, {512}, {5e8}, AttentionSpan::document});
  EXPECT_FALSE(times_documents(m, DType::bf16, 4));
  EXPECT_DOUBLE_EQ(seconds_of(m, within), 2);  // of one direction, they are not used
  m.attention.push_back(
      {DType::bf16, Direction::forward, 4, {512}, {2e9}, AttentionSpan::document});
  EXPECT_TRUE(times_documents(m, DType::bf16, 4));
  EXPECT_FALSE(times_documents(m, DType::f32, 4));
  EXPECT_FALSE(
      times_documents(m, DType::bf16, 8));  // a file that is not measured has this head dim
  EXPECT_NEAR(seconds_of(m, within), 4, 1e-12);
  within.within_documents = false;
  EXPECT_DOUBLE_EQ(seconds_of(m, within), 2);
  EXPECT_TRUE(times_documents(test::plain_machine("host"), DType::f32, 4));
}

// Two experts with six rows, of which one may have all: 3 x 5, sums over 4, twice.
TEST(Workloads, OfProductsOfExperts) {
  Ref ref;
  const auto floats = [&](const Shape& s) {
    return Tensor::empty(ref, s, DType::f32, MemoryKind::transient);
  };
  const auto c = floats({6, 5}), a = floats({6, 4}), b = floats({5, 4}), dw = floats({5, 4});
  const auto offset = Tensor::empty(ref, {3}, DType::i32, MemoryKind::transient);
  const ConstView w = b.view(), turned = w.transposed();
  const auto forward = workloads_of(kernel::GroupedMatmul{.c_RN = c.view(),
                                                          .a_RK = a.view(),
                                                          .offset_E1 = offset.view(),
                                                          .b_KN = {turned, turned}},
                                    EpilogueTime::fused)
                           .at(0);
  EXPECT_EQ(forward.layout, MatmulLayout::nt);
  EXPECT_EQ(forward.m, (std::array<std::int64_t, 3>{3, 5, 4}));
  EXPECT_EQ(forward.flops, 2 * 6 * 5 * 4);
  EXPECT_EQ(forward.bytes, 4 * (6 * 5 + 6 * 4 + 3 + 2 * 5 * 4));
  const auto gradient = workloads_of(kernel::GroupedMatmulGrad{.c_MN = {dw.view(), dw.view()},
                                                               .a_RM = c.view(),
                                                               .b_RN = a.view(),
                                                               .offset_E1 = offset.view()},
                                     EpilogueTime::fused)
                            .at(0);
  EXPECT_EQ(gradient.layout, MatmulLayout::tn);
  EXPECT_EQ(gradient.m, (std::array<std::int64_t, 3>{5, 4, 3}));

  // As long as both products by themselves.
  MachineModel m = test::plain_machine("host");
  Workload one = forward;
  one.name = kernel::Matmul::name;
  EXPECT_DOUBLE_EQ(seconds_of(m, forward), seconds_of(m, one));
}

TEST(MachineModel, RefusesByNameWhatItDoesNotKnow) {
  MachineModel m = test::plain_machine("host");
  m.products.clear();
  EXPECT_THAT(refusal(m, product(8, 8, 8)),
              testing::AllOf(HasSubstr("plain.toml"),
                             HasSubstr("[[product]] with dtype f32 and layout nn")));

  Workload attention;
  attention.name = "attention_grad";
  attention.head_dim = 64;
  m.measured = false;  // rates of another head dim do not do
  EXPECT_THAT(refusal(m, attention),
              HasSubstr("[[attention]] with dtype f32, direction backward and head_dim 64"));

  Workload fill;
  fill.name = "fill";
  m.memory_bandwidth.reset();
  EXPECT_THAT(refusal(m, fill),
              HasSubstr("memory.bandwidth, which is needed for the operation fill"));
}

}  // namespace trireme
