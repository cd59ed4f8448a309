// What a step of the deck for a GPU asks of its device: how many operations, and how many bytes
// they move. docs/gpu.md has the table.
#include <gtest/gtest.h>

#include <map>

#include "lib/deck/resolve.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {
namespace {

struct Asked {
  std::int64_t times = 0;
  Work work;
};

class Counting final : public Dry {
 public:
  using Dry::Dry;
  void put(Queue q, const kernel::Operation& o) override {
    Dry::put(q, o);
    auto& asked = all[std::string(name_of(o))];
    ++asked.times;
    std::visit([&](const auto& one) { asked.work += work_of(one); }, o);
    if (const auto* sum = std::get_if<kernel::ResidualNorm>(&o))
      sums_in_place += sum->sum_BTC.data == sum->x_BTC.data;
    if (const auto* sum = std::get_if<kernel::Dropout>(&o))
      sums_in_place += sum->y_BTC.data == sum->x_BTC.data;
  }

  std::map<std::string, Asked> all;  // by operation
  std::int64_t sums_in_place = 0;    // of the residual stream
};

constexpr std::int64_t head_rows = 4096;  // of the cuda backend

struct Step {
  std::map<std::string, Asked> all;
  std::int64_t sums_in_place = 0;
};

Step step_of(const Deck& deck) {
  auto target = roomy_target(false);
  target.properties.head_rows = head_rows;
  target.order = false;
  Counting device(target);
  const auto input =
      plan_input_of(deck, deck.precision.compute, TransportKind::host, {}, DocumentWeights::absent);
  const Workspace workspace(device);
  Trainer trainer(device, {}, input.setup);
  device.all.clear();
  trainer.step(0, 1e-3, any_microbatches(input));
  return {device.all, device.sums_in_place};
}

class LaunchesOfAStep : public testing::Test {
 protected:
  const Deck deck = resolve(load_deck(test::source_dir() / "inputs/gpt2_124m_gpu.toml"), {});
  const Step step = step_of(deck);
  const std::map<std::string, Asked>& all = step.all;
  const std::int64_t L = deck.model.layers, M = deck.train.batch / deck.train.microbatch,
                     rows = deck.train.microbatch * deck.data.context,
                     chunks = rows / head_rows;  // of logits
};

TEST_F(LaunchesOfAStep, AreThoseOfTheFormulas) {
  std::map<std::string, std::int64_t> times;
  for (const auto& [name, asked] : all) times[name] = asked.times;

  const std::map<std::string, std::int64_t> wanted = {
      {"embedding", M},
      {"embedding_grad", M},
      {"copy", M + 1},    // positions are added to the embedding, and both uses of its table
      {"column_sum", M},  // and summed over the samples
      {"norm", M * (L + 1)},
      {"residual_norm", M * L},
      {"dropout", M * L},  // the sum behind the feed-forward
      {"norm_grad", M * (2 * L + 1)},
      {"attention", M * L},
      {"attention_grad", M * L},
      {"cross_entropy", M * chunks},
      {"matmul", M * (12 * L + 3 * chunks)},  // four linears and the head, each with two gradients
      {"sum_squares", 1},
      {"update", 1},
  };
  EXPECT_EQ(times, wanted);

  std::int64_t sum = 0;
  double bytes = 0;
  for (const auto& [name, asked] : all) {
    sum += asked.times;
    bytes += asked.work.bytes;
    fmt::print("{:<16} {:>6} {:>10.3f} GB\n", name, asked.times, asked.work.bytes * 1e-9);
  }
  fmt::print("{:<16} {:>6} {:>10.3f} GB\n", "all", sum, bytes * 1e-9);
}

// Two a block: a branch's last product is nobody else's.
TEST_F(LaunchesOfAStep, BranchesAreAddedInTheirOwnMemory) {
  EXPECT_EQ(step.sums_in_place, M * 2 * L);
}

// The gradient of the residual stream goes into a norm's kernel and comes out of it summed.
TEST_F(LaunchesOfAStep, ANormsGradientIsAddedInOnePass) {
  const double stream = static_cast<double>(rows * deck.model.width) * 2;  // bf16
  const double statistics = static_cast<double>(rows) * 2 * 4;
  // dw and db, of each norm: written by the first microbatch, added to by the others.
  const double sums =
      static_cast<double>(deck.model.width) * 2 * 4 * static_cast<double>(2 * M - 1);
  const auto m = static_cast<double>(M), norms = static_cast<double>(2 * L + 1),
             weight = static_cast<double>(deck.model.width) * 2;

  // dsum, dy and x are read, dx is written; behind the last norm nobody sends back a dsum.
  EXPECT_DOUBLE_EQ(all.at("norm_grad").work.bytes,
                   m * (4 * norms - 1) * stream + m * norms * (statistics + weight) + norms * sums);
}

}  // namespace
}  // namespace trireme
