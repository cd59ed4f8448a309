// When a tape lets go of memory.
#include <optional>

#include "tests/autograd/fake.hpp"

namespace trireme {
namespace {

class TapeMemory : public TapeTest {};

TEST_F(TapeMemory, AnInputThatTheCallerGaveUpIsUnique) {
  std::optional<bool> unique;
  auto op = scale(2);
  op.go = [&](Tensors in, Saved*) {
    unique = in[0].unique();
    return in;
  };
  Tape tape;
  const Value x = tape.input(tensor({1}), true);

  const Value y = tape.apply(run, op, x);
  EXPECT_EQ(unique, false);
  tape.apply(run, op, tape.input(tensor({2}), true));
  EXPECT_EQ(unique, true);
}

TEST_F(TapeMemory, ADroppedValueIsFreed) {
  const auto keeps = scale(2, true), forgets = scale(3);
  const auto start = live(), one = Arena::granule;
  Tape tape;
  Value h = tape.input(tensor({1}), true);
  EXPECT_EQ(live(), start + one);

  h = tape.apply(run, forgets, std::move(h));
  EXPECT_EQ(live(), start + one);  // the input is gone
  h = tape.apply(run, keeps, std::move(h));
  EXPECT_EQ(live(), start + 2 * one);  // the input is kept for backward
  h.data = {};
  EXPECT_EQ(live(), start + one);
}

// And the memory of each op is given back as soon as its backward is done.
TEST_F(TapeMemory, BackwardLeavesNothing) {
  const auto start = live(), one = Arena::granule;
  std::optional<std::size_t> at_first;
  auto first = scale(2, true);
  const auto middle = scale(3, true), last = scale(5, true);
  first.back = [&](Tensors dy, Saved saved) {
    at_first = live();
    EXPECT_TRUE(saved.as<Tensor>().unique());  // so an op may free or overwrite it
    return Tensors{scaled(saved.as<Tensor>(), values(dy[0])[0])};
  };
  {
    Tape tape;
    Value h = tape.input(tensor({1}), true);
    const auto leaf = h.slot;
    for (const Fake* op : std::initializer_list<const Fake*>{&first, &middle, &last})
      h = tape.apply(run, *op, std::move(h));
    EXPECT_EQ(live(), start + 4 * one);
    const auto root = h.slot;
    h.data = {};

    const Tensor dx = std::move(tape).backward(run, root, tensor({1}), leaf);

    EXPECT_EQ(values(dx), std::vector<double>{15});
    EXPECT_EQ(*at_first, start + 2 * one);  // dy and what `first` saved
    EXPECT_EQ(live(), start + one);
  }
  EXPECT_EQ(live(), start);
}

// Between the halves stays what weight gradients read: of ops that learn, what comes back and what
// they saved; and each op's is given back as soon as it is done.
TEST_F(TapeMemory, TheFirstHalfKeepsWhatTheSecondReads) {
  NoGradients gradients;
  run.gradients = &gradients;
  const auto start = live(), one = Arena::granule;
  std::vector<std::size_t> seen;
  const auto learns = [&](ParamId p) {
    auto op = scale(2, true);
    op.parameters = {p};
    op.weigh = [&](Tensors dy, Saved saved) {
      EXPECT_TRUE(dy[0].unique() && saved.as<Tensor>().unique());
      seen.push_back(live());
    };
    return op;
  };
  const auto a = learns(learning), b = learns(frozen), c = scale(3, true), d = learns(learning);
  {
    Tape tape;
    Value h = tape.input(tensor({1}), true);
    const auto leaf = h.slot;
    for (const Fake* op : std::initializer_list<const Fake*>{&a, &b, &c, &d})
      h = tape.apply(run, *op, std::move(h));
    const auto root = h.slot;
    h.data = {};

    tape.input_gradients(run, root, tensor({1}), leaf);

    EXPECT_EQ(live(), start + 4 * one);
    std::move(tape).weight_gradients(run);
    EXPECT_EQ(seen, (std::vector<std::size_t>{start + 4 * one, start + 2 * one}));
    EXPECT_EQ(live(), start);
  }
}

TEST_F(TapeMemory, ATapeThatIsDroppedLeavesNothing) {
  const auto op = scale(2, true);
  const auto start = live();
  {
    Tape tape;
    Value h = tape.input(tensor({1}), true);
    for (int i = 0; i < 3; ++i) h = tape.apply(run, op, std::move(h));
  }
  EXPECT_EQ(live(), start);
}

TEST_F(TapeMemory, RecordOffKeepsNothing) {
  auto op = scale(2, true);
  op.parameters = {learning};
  const auto start = live();
  Tape tape(Record::off);
  Value h = tape.input(tensor({1}), true);

  for (int i = 0; i < 3; ++i) h = tape.apply(run, op, std::move(h));

  EXPECT_FALSE(op.recorded);
  EXPECT_TRUE(tape.empty());
  EXPECT_EQ(live(), start + Arena::granule);
  EXPECT_EQ(values(h.data), std::vector<double>{8});
}

}  // namespace
}  // namespace trireme
