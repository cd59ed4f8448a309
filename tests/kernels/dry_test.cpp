#include "kernels/dry/dry.hpp"

#include <gmock/gmock.h>

#include "lib/tensor/tensor.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {

class DryOrder : public testing::Test {
 protected:
  Tensor tensor(Queue first = Queue::compute) {
    return Tensor::empty(dry, {100}, DType::f32, MemoryKind::transient, first);
  }
  Dry dry{roomy_target()};
};

TEST_F(DryOrder, WorkOnOneQueueIsOrdered) {
  const auto x = tensor(), y = tensor();

  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.put(Queue::compute, kernel::Copy{.dst = y.view(), .src = x.view()});
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});

  EXPECT_EQ(dry.race_count(), 0);
}

TEST_F(DryOrder, AReadOnAnotherQueueNeedsAnEvent) {
  const auto x = tensor(), y = tensor(Queue::gather);
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});

  dry.put(Queue::gather, kernel::Copy{.dst = y.view(), .src = x.view()});
  EXPECT_EQ(dry.race_count(), 1);
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.put(Queue::gather, kernel::Copy{.dst = y.view(), .src = x.view()});

  EXPECT_EQ(dry.race_count(), 1);
  EXPECT_NE(dry.races()[0].find("copy on queue gather"), std::string::npos) << dry.races()[0];
}

TEST_F(DryOrder, AWriteAfterAnotherQueuesReadNeedsAnEvent) {
  const auto x = tensor(), y = tensor(Queue::gather);
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.put(Queue::gather, kernel::Copy{.dst = y.view(), .src = x.view()});

  dry.put(Queue::compute, kernel::Fill{.dst = x.view().slice(0, 50, 10), .value = 0});

  EXPECT_EQ(dry.race_count(), 1);
}

TEST_F(DryOrder, EventsArePassedOn) {
  const auto x = tensor();
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.wait(Queue::exchange, dry.record(Queue::gather));

  dry.put(Queue::exchange, kernel::Fill{.dst = x.view(), .value = 0});

  EXPECT_EQ(dry.race_count(), 0);
}

TEST_F(DryOrder, DisjointBytesNeedNoOrder) {
  const auto x = tensor();

  dry.put(Queue::compute, kernel::Fill{.dst = x.view().slice(0, 0, 50), .value = 0});
  dry.put(Queue::gather, kernel::Fill{.dst = x.view().slice(0, 50, 50), .value = 0});

  EXPECT_EQ(dry.race_count(), 0);
}

// A block used by another queue is handed on only after that use.
TEST_F(DryOrder, MemoryIsReusedInOrder) {
  {
    const auto x = tensor(Queue::gather);
    dry.put(Queue::gather, kernel::Fill{.dst = x.view(), .value = 0});
    x.used(dry.record(Queue::gather));
  }
  {
    const auto y = tensor();
    dry.put(Queue::compute, kernel::Fill{.dst = y.view(), .value = 0});
  }
  EXPECT_EQ(dry.race_count(), 0);

  {
    const auto x = tensor();  // its use on gather is not reported
    dry.wait(Queue::gather, dry.record(Queue::compute));
    dry.put(Queue::gather, kernel::Fill{.dst = x.view(), .value = 0});
  }
  const auto y = tensor();
  dry.put(Queue::compute, kernel::Fill{.dst = y.view(), .value = 0});
  EXPECT_EQ(dry.race_count(), 1);
}

TEST_F(DryOrder, EveryOperandsRoleCounts) {
  const auto x = tensor(Queue::gather), y = tensor();
  const auto race = [&](const kernel::Operation& o) {
    dry.put(Queue::gather, kernel::Fill{.dst = x.view(), .value = 0});
    const auto before = dry.race_count();
    dry.put(Queue::compute, o);
    dry.wait(Queue::gather, dry.record(Queue::compute));
    const auto races = dry.race_count() - before;
    dry.wait(Queue::compute, dry.record(Queue::gather));
    return races > 0;
  };
  const View a = x.view(), b = y.view();

  EXPECT_TRUE(race(kernel::Activate{.activation = Activation::gelu, .y_N = a, .x_N = b}));
  EXPECT_TRUE(race(kernel::Activate{.activation = Activation::gelu, .y_N = b, .x_N = a}));
  EXPECT_FALSE(race(kernel::Activate{.activation = Activation::gelu, .y_N = b, .x_N = b}));
  const View two = b.slice(0, 0, 50);  // not what the first shard has
  kernel::Update sgd{.rule = rule::Sgd{},
                     .shards = {{.master_N = b.slice(0, 50, 50), .grad_N = b, .factors = {}},
                                {.master_N = two, .grad_N = b, .factors = {}}}};
  EXPECT_FALSE(race(sgd));
  sgd.shards[1].copy_N = a;  // may be absent, and is written where it is there
  EXPECT_TRUE(race(sgd));
}

TEST_F(DryOrder, AReadBesideAReadIsNoRaceAndAnAdditionIsOne) {
  const auto x = tensor(), y = tensor(), z = tensor(Queue::gather);
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.wait(Queue::gather, dry.record(Queue::compute));

  dry.put(Queue::gather, kernel::Copy{.dst = z.view(), .src = x.view()});
  dry.put(Queue::compute, kernel::Copy{.dst = y.view(), .src = x.view()});
  EXPECT_EQ(dry.race_count(), 0);
  dry.put(Queue::compute, kernel::Copy{.dst = x.view(), .src = y.view(), .how = Accumulate::add});
  EXPECT_EQ(dry.race_count(), 1);
}

TEST_F(DryOrder, AMissingOperandIsRefusedByName) {
  const auto x = tensor();
  EXPECT_THAT(
      message_of<Error>([&] { dry.put(Queue::compute, kernel::Copy{.dst = x.view(), .src = {}}); }),
      testing::HasSubstr("copy: operand 1"));
  EXPECT_THAT(
      message_of<Error>([&] {
        dry.put(Queue::compute,
                kernel::Norm{.y_TC = x.view(), .rstd_T = x.view(), .x_TC = x.view(), .w_C = {}});
      }),
      testing::HasSubstr("norm: operand 4"));
  dry.put(Queue::compute, kernel::Copy{.dst = x.view(), .src = x.view()});  // goes on
}

// 2 M N K of a product, by its definition; 2 of 2 T T D / 2 a head and sample of attention, 5 of
// its gradient.
TEST_F(DryOrder, CountsProductsAndAttention) {
  const auto x = Tensor::empty(dry, {1000}, DType::f32, MemoryKind::transient);
  const auto of = [&](const Shape& s) { return x.view().slice(0, 0, s.count()).reshaped(s); };
  dry.put(Queue::compute,
          kernel::Matmul{.c_MN = of({3, 7}), .a_MK = of({3, 5}), .b_KN = of({5, 7})});
  double flops = 2 * 3 * 7 * 5;
  EXPECT_EQ(dry.flops(), flops);

  const AttentionShape s{2, 5, 3, 1, 4, 0.5};
  const View q = of({2, 5, 3, 4}), k = of({2, 5, 1, 4}), lse = of({2, 3, 5});
  const double product = 2 * 5 * 5 * 4 / 2;
  dry.put(Queue::compute,
          kernel::Attention{
              .o_BTHD = q, .lse_BHT = lse, .q_BTHD = q, .k_BTGD = k, .v_BTGD = k, .shape = s});
  EXPECT_EQ(dry.flops(), flops += 2 * 3 * 2 * product);
  dry.put(Queue::compute, kernel::AttentionGrad{.dq_BTHD = q,
                                                .dk_BTGD = k,
                                                .dv_BTGD = k,
                                                .do_BTHD = q,
                                                .o_BTHD = q,
                                                .lse_BHT = lse,
                                                .q_BTHD = q,
                                                .k_BTGD = k,
                                                .v_BTGD = k,
                                                .shape = s});
  EXPECT_EQ(dry.flops(), flops += 2 * 3 * 5 * product);
  dry.put(Queue::compute,
          kernel::Activate{.activation = Activation::gelu, .y_N = of({9}), .x_N = of({9})});
  EXPECT_EQ(dry.flops(), flops);
}

TEST_F(DryOrder, ScalarsReadBackAsOne) {
  const auto x = Tensor::empty(dry, {3}, DType::f64, MemoryKind::transient);
  std::vector<double> values(3);

  dry.download(Queue::compute, std::as_writable_bytes(std::span(values)), x.view());

  EXPECT_EQ(values, (std::vector<double>{1, 1, 1}));
}

}  // namespace trireme
