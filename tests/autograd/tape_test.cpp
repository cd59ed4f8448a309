#include "lib/autograd/tape.hpp"

#include <fmt/format.h>

#include "tests/autograd/fake.hpp"

namespace trireme {
namespace {

TEST_F(TapeTest, GradientsOfAValueUsedTwiceAdd) {
  const auto twice = scale(2), thrice = scale(3), sum = add();
  Tape tape;
  const Value x = tape.input(tensor({1, 10}), true);
  const auto leaf = x.slot;

  const Value y = both(tape, sum, tape.apply(run, twice, x), tape.apply(run, thrice, x));

  EXPECT_EQ(values(y.data), (std::vector<double>{5, 50}));
  EXPECT_EQ(values(std::move(tape).backward(run, y.slot, tensor({1, 7}), leaf)),
            (std::vector<double>{5, 35}));
}

// A gradient that backward returns twice is one tensor with two owners.
TEST_F(TapeTest, AGradientReturnedTwiceToOneLeafIsCopiedBeforeItIsAddedTo) {
  for (const bool kept : {false, true}) {
    const auto sum = add();
    Tape tape;
    const Value x = tape.input(tensor({1, 10}), true);
    const Value y = both(tape, sum, x, x);
    Tensor seed = tensor({1, 7});
    const Tensor held = kept ? seed : Tensor{};

    const Tensor dx = std::move(tape).backward(run, y.slot, std::move(seed), x.slot);

    EXPECT_EQ(values(dx), (std::vector<double>{2, 14}));
    if (kept) {
      EXPECT_EQ(values(held), (std::vector<double>{1, 7}));
    }
  }
}

// skip + branch: dy waits for the branch's gradient, and by then nobody else holds it.
TEST_F(TapeTest, AddsInPlaceWhereNobodyElseLooks) {
  const auto branch = scale(3), sum = add();
  Tape tape;
  const Value x = tape.input(tensor({1, 10}), true);
  const Value y = both(tape, sum, x, tape.apply(run, branch, x));
  Tensor seed = tensor({1, 7});
  const auto* memory = seed.view().data;

  const Tensor dx = std::move(tape).backward(run, y.slot, std::move(seed), x.slot);

  EXPECT_EQ(values(dx), (std::vector<double>{4, 28}));
  EXPECT_EQ(dx.view().data, memory);
}

// The same with a dy that the caller keeps: the sum is made in the branch's gradient instead.
TEST_F(TapeTest, AddsIntoTheUnsharedOne) {
  auto branch = scale(3);
  const auto sum = add();
  const std::byte* memory = nullptr;
  branch.back = [&](Tensors dy, Saved) {
    Tensors dx{scaled(dy[0], 3)};
    memory = dx[0].view().data;
    return dx;
  };
  Tape tape;
  const Value x = tape.input(tensor({1, 10}), true);
  const Value y = both(tape, sum, x, tape.apply(run, branch, x));
  const Tensor seed = tensor({1, 7});

  const Tensor dx = std::move(tape).backward(run, y.slot, seed, x.slot);

  EXPECT_EQ(values(dx), (std::vector<double>{4, 28}));
  EXPECT_EQ(values(seed), (std::vector<double>{1, 7}));
  EXPECT_EQ(dx.view().data, memory);
}

// The first sum goes into b's gradient, for dy is still wanted by a; the second into the first.
TEST_F(TapeTest, ThreeGradientsAddInTheMemoryOfOne) {
  const auto a = scale(2), sum = add();
  auto b = scale(3);
  const std::byte* memory = nullptr;
  b.back = [&](Tensors dy, Saved) {
    Tensors dx{scaled(dy[0], 3)};
    memory = dx[0].view().data;
    return dx;
  };
  Tape tape;
  const Value x = tape.input(tensor({1, 10}), true);
  Value inner = tape.apply(run, a, x);
  inner = both(tape, sum, std::move(inner), tape.apply(run, b, x));
  const Value y = both(tape, sum, std::move(inner), x);

  const Tensor dx = std::move(tape).backward(run, y.slot, tensor({1, 7}), x.slot);

  EXPECT_EQ(values(dx), (std::vector<double>{6, 42}));
  EXPECT_EQ(dx.view().data, memory);
}

TEST_F(TapeTest, RecordsWhereAGradientFlowsAlone) {
  auto prefix = scale(2), learned = scale(3), after = scale(5);
  prefix.parameters = {frozen};
  learned.parameters = {frozen, learning};
  Tape tape;
  const Value x = tape.input(tensor({1}), false);

  Value h = tape.apply(run, prefix, x);
  EXPECT_FALSE(prefix.recorded);
  EXPECT_TRUE(tape.empty());
  h = tape.apply(run, learned, std::move(h));
  EXPECT_TRUE(learned.recorded);
  h = tape.apply(run, after, std::move(h));
  EXPECT_TRUE(after.recorded);
  const Tensor dx = std::move(tape).backward(run, h.slot, tensor({1}), x.slot);

  EXPECT_FALSE(dx);
  EXPECT_EQ(prefix.backwards, 0);
  EXPECT_EQ(learned.backwards, 1);
  EXPECT_EQ(learned.wanted, Flags{0});  // nobody wants what reaches the frozen prefix
  EXPECT_EQ(after.wanted, Flags{1});
}

TEST_F(TapeTest, AWantedLeafIsEnough) {
  const auto op = scale(2);
  Tape tape;
  const Value x = tape.input(tensor({1}), true);

  tape.apply(run, op, x);

  EXPECT_TRUE(op.recorded);
}

TEST_F(TapeTest, WhatAnOpReturnsForAnUnwantedInputIsDropped) {
  const auto sum = add();
  Tape tape;
  const Value ids = tape.input(tensor({1}), false), x = tape.input(tensor({2}), true);
  const Value y = both(tape, sum, ids, x);

  const Tensor none = std::move(tape).backward(run, y.slot, tensor({3}), ids.slot);

  EXPECT_FALSE(none);
  EXPECT_EQ(sum.wanted, (Flags{0, 1}));
}

// An output that leads nowhere has a gradient of zero, which is an absent tensor.
TEST_F(TapeTest, AnUnusedOutputHasAnAbsentGradient) {
  Fake split;
  split.go = [this](Tensors in, Saved*) { return Tensors{scaled(in[0], 1), scaled(in[0], 2)}; };
  Flags present;
  split.back = [&](Tensors dy, Saved) {
    for (const auto& g : dy) present.push_back(bool(g));
    return Tensors{scaled(dy[1], 2)};
  };
  Tape tape;
  const Value x = tape.input(tensor({1}), true);
  std::vector<Value> in;
  in.push_back(x);
  const auto parts = tape.apply(run, split, std::move(in));

  const Tensor dx = std::move(tape).backward(run, parts[1].slot, tensor({3}), x.slot);

  EXPECT_EQ(present, (Flags{0, 1}));
  EXPECT_EQ(values(dx), std::vector<double>{6});
}

// In halves: gradients flow as in one pass, and weight gradients come later, in the same order.
TEST_F(TapeTest, WeightGradientsOfTheSecondHalfGetWhatTheFirstGot) {
  NoGradients gradients;
  run.gradients = &gradients;
  std::vector<std::string> calls;
  const auto learns = [&](double factor) {
    auto op = scale(factor, true);
    op.parameters = {learning};
    op.weigh = [&calls, factor, this](Tensors dy, Saved saved) {
      calls.push_back(
          fmt::format("{}: {} {}", factor, values(dy[0])[0], values(saved.as<Tensor>())[0]));
    };
    return op;
  };
  const auto first = learns(2), last = learns(5);
  const auto middle = scale(3);
  Tape tape;
  Value h = tape.input(tensor({1}), true);
  const auto leaf = h.slot;
  for (const Fake* op : std::initializer_list<const Fake*>{&first, &middle, &last})
    h = tape.apply(run, *op, std::move(h));

  const Tensor dx = tape.input_gradients(run, h.slot, tensor({7}), leaf);

  EXPECT_EQ(values(dx), std::vector<double>{7 * 30});
  EXPECT_TRUE(calls.empty());
  std::move(tape).weight_gradients(run);
  EXPECT_EQ(calls, (std::vector<std::string>{"5: 7 6", "2: 105 1"}));
}

}  // namespace
}  // namespace trireme
