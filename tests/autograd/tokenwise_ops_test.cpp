// A sequence in chunks is the sequence, with memory of a chunk.
#include <numeric>

#include "lib/autograd/tape.hpp"
#include "tests/autograd/fake.hpp"

namespace trireme {
namespace {

// x -> x, 5 * (2 x) by two ops, the second of which learns.
class Fives final : public TokenwiseOps {
 public:
  Fives(const Op& twice, const Op& learned) : twice_(twice), learned_(learned) {}
  std::string_view name() const override { return "fives"; }
  std::vector<Value> forward(Tape& tape, const trireme::Run& run,
                             std::vector<Value> x) const override {
    positions.push_back(run.pass.rows.t0);
    Value y = tape.apply(run, twice_, x[0]);
    x.push_back(tape.apply(run, learned_, std::move(y)));
    return x;
  }
  mutable std::vector<std::int64_t> positions;

 private:
  const Op &twice_, &learned_;
};

class StretchTest : public TapeTest {
 protected:
  // [2, 5, 3], counted up from 0.
  Tensor counted() {
    std::vector<double> v(30);
    std::iota(v.begin(), v.end(), 0.0);
    return tensor(v).reshaped({2, 5, 3});
  }
  Fake shaped(double factor, bool saves = false) {
    Fake op;
    op.go = [=, this](Tensors in, Saved* saved) {
      if (saved && saves) saved->keep(in[0]);
      return Tensors{scaled(in[0], factor).reshaped(in[0].shape())};
    };
    op.back = [=, this](Tensors dy, Saved) {
      return Tensors{scaled(dy[0], factor).reshaped(dy[0].shape())};
    };
    return op;
  }
};

TEST_F(StretchTest, ForwardAndItsAdjointAreThoseOfAllTokens) {
  for (const std::int64_t at_once : {0, 2, 5, 7, 30}) {
    const auto twice = shaped(2);
    auto learned = shaped(5, true);
    learned.parameters = {learning};
    double weight_gradient = 0;
    learned.weigh = [&](Tensors dy, Saved saved) {
      const auto g = values(dy[0]), x = values(saved.as<Tensor>());
      weight_gradient = std::inner_product(g.begin(), g.end(), x.begin(), weight_gradient);
    };
    const Fives sequence(twice, learned);
    run.pass.chunk_tokens = at_once;
    Tape tape;
    std::vector<Value> in;
    in.push_back(tape.input(counted(), true));
    const auto leaf = in[0].slot;
    const auto* memory = in[0].data.view().data;

    auto out = tape.apply(run, sequence, std::move(in));

    EXPECT_EQ(out[0].data.view().data, memory) << "what passes is not copied";
    EXPECT_EQ(values(out[1].data), values(scaled(counted(), 10)));
    const auto sum = add();
    const Value y = both(tape, sum, std::move(out[0]), std::move(out[1]));
    const Tensor dx = std::move(tape).backward(run, y.slot, counted(), leaf);
    EXPECT_EQ(values(dx), values(scaled(counted(), 11)));
    const auto all = values(counted());
    EXPECT_EQ(weight_gradient, 2 * std::inner_product(all.begin(), all.end(), all.begin(), 0.0));
  }
}

// In halves: weight gradients later, chunk by chunk in the same order.
TEST_F(StretchTest, KeepsOfEachChunkWhatTheSecondHalfReads) {
  NoGradients gradients;
  run.gradients = &gradients;
  run.pass.chunk_tokens = 5;
  const auto twice = shaped(2);
  auto learned = shaped(5, true);
  learned.parameters = {learning};
  std::vector<double> first;
  learned.weigh = [&](Tensors dy, Saved saved) {
    first.push_back(values(dy[0])[0]);
    first.push_back(values(saved.as<Tensor>())[0]);
  };
  const Fives sequence(twice, learned);
  Tape tape;
  std::vector<Value> in;
  in.push_back(tape.input(counted(), true));
  const auto leaf = in[0].slot;
  const auto out = tape.apply(run, sequence, std::move(in));

  const Tensor dx = tape.input_gradients(run, out[1].slot, counted(), leaf);

  EXPECT_EQ(values(dx), values(scaled(counted(), 10)));
  EXPECT_TRUE(first.empty());
  std::move(tape).weight_gradients(run);
  EXPECT_EQ(first, (std::vector<double>{0, 0, 15, 30}));
}

// Forward, and in the same order forward once more.
TEST_F(StretchTest, GoesThroughEachSamplesPositions) {
  const auto twice = shaped(2), other = shaped(5);
  const Fives sequence(twice, other);
  const std::vector<std::int64_t> samples{0, 1};
  run.pass.rows = {ConstView(reinterpret_cast<const std::byte*>(samples.data()), DType::i64, {2}),
                   100};
  run.pass.chunk_tokens = 2;
  Tape tape;
  std::vector<Value> in;
  in.push_back(tape.input(counted(), true));
  const auto leaf = in[0].slot;
  const auto out = tape.apply(run, sequence, std::move(in));
  std::move(tape).backward(run, out[1].slot, counted(), leaf);

  const std::vector<std::int64_t> once{100, 102, 104, 100, 102, 104};
  auto twice_all = once;
  twice_all.insert(twice_all.end(), once.begin(), once.end());
  EXPECT_EQ(sequence.positions, twice_all);
}

TEST_F(StretchTest, IsNotRecordedWhereNothingFlows) {
  const auto twice = shaped(2), other = shaped(5);
  const Fives sequence(twice, other);
  run.pass.chunk_tokens = 2;
  Tape tape;
  std::vector<Value> in;
  in.push_back(tape.input(counted(), false));
  tape.apply(run, sequence, std::move(in));
  EXPECT_TRUE(tape.empty());
}

class Twice final : public TokenwiseOps {
 public:
  explicit Twice(const Op& op) : op_(op) {}
  std::string_view name() const override { return "twice"; }
  std::vector<Value> forward(Tape& tape, const trireme::Run& run,
                             std::vector<Value> x) const override {
    x[0] = tape.apply(run, op_, std::move(x[0]));
    return x;
  }

 private:
  const Op& op_;
};

// Run for its backward alone, what forward ends with is not computed before the chunks are.
TEST_F(StretchTest, TheEndOfAForwardThatIsRunAgainIsLeftToItsChunks) {
  const auto op = shaped(2);
  const Twice sequence(op);
  for (const std::int64_t at_once : {0, 5}) {
    op.forwards = 0;
    run.pass.chunk_tokens = at_once;
    Tape tape(Record::again);
    std::vector<Value> in;
    in.push_back(tape.input(counted(), true));
    const auto leaf = in[0].slot;
    const Value out = tape.finish(run, sequence, std::move(in));
    EXPECT_EQ(op.forwards, at_once == 0 ? 1 : 0);
    EXPECT_EQ(values(std::move(tape).backward(run, out.slot, counted(), leaf)),
              values(scaled(counted(), 2)));
    EXPECT_EQ(op.forwards, at_once == 0 ? 1 : 2);
  }
}

}  // namespace
}  // namespace trireme
