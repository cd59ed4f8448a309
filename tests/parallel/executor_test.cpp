// The executor between real ranks: every tensor goes with its microbatch, and what a failing stage
// leaves behind arrives whole.
#include "lib/pipe/executor.hpp"

#include <map>

#include "lib/pipe/schedule.hpp"
#include "tests/parallel/collective_test.hpp"

namespace trireme::test {
namespace {

// Adds its virtual stage + 1 to what comes down, and ten times that to what comes up; the first
// makes the number 1000 m, the last starts back with m.
class Adding final : public Stage {
 public:
  Adding(Backend& b, std::int64_t elements, const Pipeline& pipe)
      : backend_(b), elements_(elements), pipe_(pipe) {}

  Boundary boundary() const override { return {{elements_}, DType::f32}; }
  Tensor forward(int m, int chunk, Tensor x) override {
    if (m == fails_at) fail("the stage's own trouble");
    down[m] = (x ? number(x) : 1000 * m) + at(chunk) + 1;
    return at(chunk) + 1 < pipe_.virtual_stages() ? tensor(down[m]) : Tensor();
  }
  Tensor backward(int m, int chunk, Tensor dy) override {
    up[m] = (dy ? number(dy) : m) + 10 * (at(chunk) + 1);
    return at(chunk) > 0 ? tensor(up[m]) : Tensor();
  }
  Tensor input_gradients(int m, int chunk, Tensor dy) override {
    return backward(m, chunk, std::move(dy));
  }
  void weight_gradients(int m, int) override { weights.push_back(m); }

  std::vector<int> weights;        // microbatches
  std::map<int, double> down, up;  // by microbatch, in the chunk that ran last
  int fails_at = -1;

 private:
  int at(int chunk) const { return pipe_.virtual_stage(world().rank(), chunk); }
  // All elements are equal.
  double number(const Tensor& t) {
    const auto all = read(backend_, Queue::compute, t.view());
    for (const double x : all)
      if (x != all[0]) return std::nan("");
    return all[0];
  }
  Tensor tensor(double x) {
    auto t = Tensor::empty(backend_, {elements_}, DType::f32, MemoryKind::transient);
    backend_.put(Queue::compute, kernel::Fill{.dst = t.view(), .value = x});
    return t;
  }

  Backend& backend_;
  std::int64_t elements_;
  Pipeline pipe_;
};

class Executor : public testing::TestWithParam<const char*> {
 protected:
  static int rank() { return world().rank(); }
  static int ranks() { return world().size(); }
  static Pipe pipe() { return {world().split(0, rank()), world().split(0, rank())}; }

  std::unique_ptr<Backend> backend_ = open_backend({GetParam(), 1, true});
};
INSTANTIATE_TEST_SUITE_P(Backends, Executor, testing::Values("host", "fenced"),
                         [](const auto& p) { return std::string(p.param); });

void expect_sums(const Adding& stage, int microbatches) {
  const int me = world().rank(), n = world().size();
  for (int m = 0; m < microbatches; ++m) {
    EXPECT_EQ(stage.down.at(m), 1000 * m + (me + 1) * (me + 2) / 2) << "microbatch " << m;
    EXPECT_EQ(stage.up.at(m), m + 10 * (n * (n + 1) / 2 - me * (me + 1) / 2)) << "microbatch " << m;
  }
}

TEST_P(Executor, TrainsEveryMicrobatch) {
  world().configure({.chunk = 100, .random_delays = 9});
  const Pipeline plain{.stages = ranks()};
  Adding stage(*backend_, 253, plain);

  execute(training_program(plain, 6, rank()), plain, stage, *backend_, pipe());

  expect_sums(stage, 6);
}

TEST_P(Executor, RunsWeightGradientsByThemselves) {
  world().configure({.chunk = 100, .random_delays = 9});
  const Pipeline halves{ScheduleKind::zero_bubble, ranks()};
  Adding stage(*backend_, 253, halves);

  execute(training_program(halves, 6, rank()), halves, stage, *backend_, pipe());

  expect_sums(stage, 6);
  // The first stage's backward is whole.
  EXPECT_EQ(stage.weights, rank() > 0 ? (std::vector<int>{0, 1, 2, 3, 4, 5}) : std::vector<int>{});
}

// What the last chunk makes forward and the first one backward has been through all ranks as often
// as there are chunks.
TEST_P(Executor, GoesAroundWithChunks) {
  world().configure({.chunk = 100, .random_delays = 9});
  const int n = ranks(), microbatches = 2 * n, chunks = 3, all = n * chunks;
  const Pipeline ring{ScheduleKind::interleaved, n, chunks};
  Adding stage(*backend_, 253, ring);

  execute(training_program(ring, microbatches, rank()), ring, stage, *backend_, pipe());

  const int last = (chunks - 1) * n + rank() + 1, first = rank();
  for (int m = 0; m < microbatches; ++m) {
    EXPECT_EQ(stage.down.at(m), 1000 * m + last * (last + 1) / 2) << "microbatch " << m;
    EXPECT_EQ(stage.up.at(m), m + 10 * (all * (all + 1) / 2 - first * (first + 1) / 2))
        << "microbatch " << m;
  }
}

// Down the ranks in one chunk, up again in the other: gradients end where activations began.
TEST_P(Executor, FoldsChunks) {
  world().configure({.chunk = 100, .random_delays = 9});
  const int n = ranks(), me = rank(), all = 2 * n;
  const Pipeline fold{ScheduleKind::zbv, n, 2};
  for (const int microbatches : {1, 2 * n + 3}) {
    Adding stage(*backend_, 253, fold);

    execute(training_program(fold, microbatches, me), fold, stage, *backend_, pipe());

    const int last = all - me, first = me;  // its second chunk counted from 1, its first from 0
    for (int m = 0; m < microbatches; ++m) {
      EXPECT_EQ(stage.down.at(m), 1000 * m + last * (last + 1) / 2) << "microbatch " << m;
      EXPECT_EQ(stage.up.at(m), m + 10 * (all * (all + 1) / 2 - first * (first + 1) / 2))
          << "microbatch " << m;
    }
    EXPECT_EQ(stage.weights.size(), static_cast<std::size_t>(2 * microbatches));
  }
}

// Not the order of any schedule: each stage takes its microbatches from the last to the first, its
// messages come and go from the first to the last.
TEST_P(Executor, KeepsMicrobatchesApart) {
  world().configure({.chunk = 100, .random_delays = 9});
  const bool above = rank() > 0, below = rank() + 1 < ranks();
  const Pipeline plain{.stages = ranks()};
  Adding stage(*backend_, 253, plain);
  Program program;
  const auto add = [&](bool there, Do what, std::initializer_list<int> microbatches) {
    if (there)
      for (const int m : microbatches) program.push_back({what, m});
  };
  add(above, Do::receive_activation, {0, 1, 2});
  add(true, Do::forward, {2, 1, 0});
  add(below, Do::send_activation, {0, 1, 2});
  add(below, Do::receive_gradient, {0, 1, 2});
  add(true, Do::backward, {1, 0, 2});
  add(above, Do::send_gradient, {0, 1, 2});

  execute(program, plain, stage, *backend_, pipe());

  expect_sums(stage, 3);
}

// Rank 0 fails with a message on its way, so large that it waits for its receiver. Its memory is
// not given back before it is drained: nobody else writes into it.
TEST_P(Executor, WhatAFailingStageSentArrivesWhole) {
  if (ranks() == 1) GTEST_SKIP() << "one rank sends nothing";
  constexpr std::int64_t many = 1 << 20;
  const Pipeline plain{.stages = ranks()};
  Adding stage(*backend_, many, plain);
  const auto both = pipe();
  double here = 1;

  if (rank() == 0) {
    stage.fails_at = 1;
    const Program program{{Do::forward, 0}, {Do::send_activation, 0}, {Do::forward, 1}};
    EXPECT_THROW(execute(program, plain, stage, *backend_, both), Error);
    EXPECT_EQ(world().abandoned(),
              std::vector<std::string>{"send of the stage boundary, microbatch 0"});
    for (int i = 0; i < 3; ++i) {
      const auto other = Tensor::empty(*backend_, {many}, DType::f32, MemoryKind::transient);
      backend_->put(Queue::compute, kernel::Fill{.dst = other.view(), .value = -1});
    }
  }
  world().all_reduce({&here, 1});
  if (rank() == 1)
    execute({{Do::receive_activation, 0}, {Do::forward, 0}}, plain, stage, *backend_, both);
  world().drain();

  EXPECT_EQ(world().abandoned(), std::vector<std::string>{});
  EXPECT_EQ(backend_->account().live_all, 0U);
  if (rank() == 1) {
    EXPECT_EQ(stage.down.at(0), 0 + 1 + 2);
  }
}

}  // namespace
}  // namespace trireme::test
