// A checkpoint made on one grid goes on on another, wherever it lies between the borders of the
// deck's [[freeze]] rules: losses, weights and averages are those of one rank that never stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "lib/comm/agree.hpp"
#include "lib/train/state.hpp"
#include "lib/train/state_saver.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {

using test::ParityCase;

namespace {

constexpr int steps = 7;

std::vector<FreezeRule> rules() {
  return {{"*.qkv.*", 2, 4, ThawMoments::fresh},
          {"blocks.5.*", 1, 5, ThawMoments::keep},  // its qkv is thus frozen before the rule above
          {"embedding.*", 3, 6, ThawMoments::keep},
          {"*norm*", 3, 5, ThawMoments::fresh},
          {"blocks.0.*", 0, 2, ThawMoments::keep}};
}

// Updates that a parameter has seen when its moments were last fresh, by name: the rules above, in
// words.
std::int64_t updates(const ParamSpec& p) {
  const auto has = [&](const char* what) { return p.name.find(what) != std::string::npos; };
  if (p.learns_from == LearnsFrom::loads) return 0;
  const bool block5 = has("blocks.5."), block0 = has("blocks.0.");
  if (block5) return steps - 4;  // 0, 5, 6
  if (has("embedding.")) return steps - 3;
  if (has(".qkv.")) return steps - 4;  // since 4; in block 0 nothing before
  if (has("norm")) return steps - 5;   // since 5
  return block0 ? steps - 2 : steps;
}

struct Layouts {
  Grid from, to;
  int zero_from, zero_to;
  OptimizerKind optimizer = OptimizerKind::adamw;
  double momentum = 0;
  ScheduleKind schedule_from = ScheduleKind::one_f_one_b;
  ScheduleKind schedule_to = ScheduleKind::one_f_one_b;
  const char* flavour = "gpt2";
};

std::vector<Layouts> layouts() {
  const int n = test::world().size();
  const Grid pipe{n, 1, 1}, data{1, n, 1}, seq{1, 1, n}, experts{1, n, 1, std::min(n, 5)};
  if (n == 1) return {{{}, {}, 0, 0}, {{}, {}, 0, 0, OptimizerKind::sgd}};
  if (n == 3) return {{pipe, pipe, 0, 3}};
  std::vector<Layouts> all{{pipe, data, 0, 3},
                           {data, pipe, 3, 1},
                           {seq, experts, 2, 0, OptimizerKind::adamw, 0, ScheduleKind::one_f_one_b,
                            ScheduleKind::one_f_one_b, "sigmoid"},
                           {experts, seq, 0, 1, OptimizerKind::sgd, 0, ScheduleKind::one_f_one_b,
                            ScheduleKind::one_f_one_b, "mixture"},
                           {data, experts, 3, 1, OptimizerKind::adamw, 0, ScheduleKind::one_f_one_b,
                            ScheduleKind::one_f_one_b, "gpt_oss"}};
  if (n == 2) {
    all.push_back({pipe, data, 0, 2, OptimizerKind::sgd, 0.9});
    all.push_back({data, seq, 3, 1, OptimizerKind::lion});
    all.push_back({data, pipe, 3, 0, OptimizerKind::muon});
    all.push_back({seq, experts, 2, 3, OptimizerKind::shampoo, 0, ScheduleKind::one_f_one_b,
                   ScheduleKind::one_f_one_b, "mixture"});
    all.push_back({pipe, pipe, 0, 3, OptimizerKind::adamw, 0, ScheduleKind::interleaved,
                   ScheduleKind::zero_bubble});
    all.push_back(
        {data, pipe, 3, 0, OptimizerKind::adamw, 0, ScheduleKind::one_f_one_b, ScheduleKind::zbv});
  }
  if (n == 4)
    return {{{2, 2, 1},
             {2, 1, 2},
             1,
             3,
             OptimizerKind::adamw,
             0,
             ScheduleKind::zbv,
             ScheduleKind::interleaved},
            all[1],
            all[3],
            {{2, 2, 1}, {1, 4, 1}, 3, 2, OptimizerKind::muon},
            {{1, 4, 1},
             {1, 2, 2, 2},
             3,
             1,
             OptimizerKind::shampoo,
             0,
             ScheduleKind::one_f_one_b,
             ScheduleKind::one_f_one_b,
             "mixture"}};
  return all;
}

ParityCase parity_case(const Grid& grid, int zero, const Layouts& l, ScheduleKind schedule) {
  ParityCase p;
  p.schedule = schedule;
  p.chunks = static_cast<int>(traits_of(schedule).fewest_chunks);
  p.grid = grid;
  p.zero.stage = zero;
  p.optimizer = l.optimizer;
  p.momentum = l.momentum;
  // Lion takes the sign of what would be 0 but for rounding: the gradient of the keys' bias.
  p.flavour = l.optimizer == OptimizerKind::lion ? "llama" : l.flavour;
  p.steps = steps;
  p.freeze = rules();
  p.ema = 0.6;
  return p;
}

// A trainer on a grid, from the start or from a checkpoint.
struct RestartedRun {
  RestartedRun(const ParityCase& c, int first_step, std::int64_t vocab = 0) : p(c) {
    auto setup = test::parity_setup(p);
    setup.first_step = first_step;
    if (vocab > 0) setup.model.vocab = vocab;
    trainer = std::make_unique<Trainer>(*backend, test::parity_axes(p), setup);
  }
  StepResult step(int s) {
    return trainer->step(s, test::learning_rate(p), test::parity_step(p, *trainer, s));
  }

  ParityCase p;
  std::unique_ptr<Backend> backend = open_backend(test::backend_of(p, true));
  Workspace workspace{*backend};
  std::unique_ptr<Trainer> trainer;
};

void expect_equal(const RestartedRun& run, const test::Course& whole) {
  auto& store = run.trainer->store();
  for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
    const auto id = ParamId::at(i);
    if (!store.holds(id)) continue;
    const auto& name = store.spec().params[i].name;
    EXPECT_EQ(store.count(id), updates(store.spec().params[i])) << name;
    const auto mine = store.own(id);
    std::vector<double> w(static_cast<std::size_t>(mine.count()));
    if (!w.empty()) store.read(id, weights_array, mine.begin, std::as_writable_bytes(std::span(w)));
    for (std::size_t e = 0; e < w.size(); ++e)
      ASSERT_NEAR(w[e], whole.weights[i][static_cast<std::size_t>(mine.begin) + e], test::f64_bound)
          << name << " " << e;
    const auto averages = test::averages_here(store, id);
    ASSERT_EQ(averages.size(), whole.averages[i].empty() ? 0 : w.size()) << name;
    for (std::size_t e = 0; e < averages.size(); ++e)
      ASSERT_NEAR(averages[e], whole.averages[i][static_cast<std::size_t>(mine.begin) + e],
                  test::f64_bound)
          << "average of " << name << " " << e;
  }
}

// One that never restarts, with a checkpoint after every step, by finished steps.
std::vector<std::string> train_whole(const ParityCase& p, const std::filesystem::path& folder) {
  std::vector<std::string> checkpoints{""};
  RestartedRun run(p, 0);
  run.trainer->store().initialize(3, 1);
  for (int s = 0; s + 1 < steps; ++s) {
    run.step(s);
    CheckpointMeta meta;
    meta.step = s + 1;
    checkpoints.push_back(
        StateSaver(run.trainer->store(), run.trainer->axes(), folder).save(meta).string());
  }
  return checkpoints;
}

void restart(const ParityCase& p, int step, const std::string& checkpoint) {
  const auto& whole = test::one_rank_course(p);
  RestartedRun run(p, step);
  CheckpointReader reader(checkpoint);
  load_state(run.trainer->store(), reader, run.trainer->freeze_states());
  for (int s = step; s < steps; ++s) {
    const auto r = run.step(s);
    const auto expected = whole.losses[static_cast<std::size_t>(s)];
    EXPECT_NEAR(r.loss, expected, test::f64_bound * expected) << "step " << s;
  }
  expect_equal(run, whole);
}

}  // namespace

TEST(Restart, OnOtherLayoutsBeforeAtAndBehindFreezeBorders) {
  ScratchFolder mine;
  std::string folder = mine.path().string();
  test::world().broadcast(folder);
  for (const auto& l : drawn(layouts(), 3)) {
    const auto from = parity_case(l.from, l.zero_from, l, l.schedule_from),
               to = parity_case(l.to, l.zero_to, l, l.schedule_to);
    if (!test::next_case(test::name_of(from))) return;
    const auto checkpoints = train_whole(from, folder);
    for (const int step : drawn(std::vector{1, 2, 3, 4, 5, 6}, 2)) {
      const auto name =
          fmt::format("step {} from {} to {}", step, test::name_of(from), test::name_of(to));
      SCOPED_TRACE(name);
      if (!test::next_case(name)) return;
      restart(to, step, checkpoints[static_cast<std::size_t>(step)]);
    }
  }
}

// Momentum and square arrays, whose lengths differ from those of the weights, are restored on
// another grid.
TEST(Restart, OfMatricesHasTheBitsOfOneRank) {
  ScratchFolder mine;
  std::string folder = mine.path().string();
  test::world().broadcast(folder);
  const int n = test::world().size();
  const Grid data{1, n, 1}, other = n % 2 == 0 ? Grid{2, n / 2, 1} : Grid{n, 1, 1};
  for (const auto optimizer : {OptimizerKind::muon, OptimizerKind::shampoo}) {
    const bool experts = optimizer == OptimizerKind::shampoo;
    ParityCase from;
    from.grid = data;
    from.zero.stage = 3;
    from.size = n == 3 ? 24 : 16;
    from.optimizer = optimizer;
    from.each_head = !experts;
    from.flavour = experts ? "mixture" : "llama";
    from.steps = 3;
    from.layers = 5;
    from = test::exact_cases({from}, "host", DType::f32)[0];
    auto to = from;
    to.grid = other;
    if (experts && other.places() % 2 == 0) to.grid.expert = 2;
    to.zero.stage = 1;
    const auto name = fmt::format("{} to {}", test::name_of(from), test::name_of(to));
    SCOPED_TRACE(name);
    if (!test::next_case(name)) return;
    RestartedRun first(from, 0);
    first.trainer->store().initialize(3, 1);
    for (int s = 0; s < 2; ++s) first.step(s);
    CheckpointMeta meta;
    meta.step = 2;
    const auto path = StateSaver(first.trainer->store(), first.trainer->axes(), folder).save(meta);

    RestartedRun second(to, 2);
    CheckpointReader reader(path);
    auto& store = second.trainer->store();
    load_state(store, reader, second.trainer->freeze_states());
    const auto& whole = test::one_rank_course(to);
    for (int s = 2; s < to.steps; ++s)
      EXPECT_EQ(second.step(s).loss, whole.losses[static_cast<std::size_t>(s)]) << "step " << s;

    for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
      const auto id = ParamId::at(i);
      const auto begin = whole.weights[i].begin() + store.own(id).begin;
      EXPECT_EQ(test::weights_here(store, id),
                std::vector<double>(begin, begin + store.own(id).count()))
          << store.spec().params[i].name;
    }
    test::meet();
  }
}

// The error names the parameter, its arrays in the checkpoint and those of the deck's optimizer.
TEST(Restart, RefusesTheStateOfAnotherOptimizer) {
  ScratchFolder mine;
  std::string folder = mine.path().string();
  test::world().broadcast(folder);
  ParityCase p;
  p.grid = {1, test::world().size(), 1};
  p.zero.stage = 3;
  p.size = test::world().size() == 3 ? 24 : 16;
  p.layers = 2;
  const auto saved_by = [&](OptimizerKind optimizer, std::int64_t step) {
    p.optimizer = optimizer;
    RestartedRun run(p, 0);
    run.trainer->store().initialize(3, 1);
    run.step(0);
    CheckpointMeta meta;
    meta.step = step;
    return StateSaver(run.trainer->store(), run.trainer->axes(), folder).save(meta);
  };
  const auto said_to = [&](const std::filesystem::path& path, OptimizerKind optimizer,
                           bool each_head = false) {
    p.optimizer = optimizer;
    p.each_head = each_head;
    RestartedRun run(p, 1);
    CheckpointReader reader(path);
    return message_of(
        [&] { load_state(run.trainer->store(), reader, run.trainer->freeze_states()); });
  };
  const auto adamw = saved_by(OptimizerKind::adamw, 1), muon = saved_by(OptimizerKind::muon, 2),
             shampoo = saved_by(OptimizerKind::shampoo, 3);
  test::meet();
  using testing::HasSubstr;
  EXPECT_THAT(said_to(adamw, OptimizerKind::muon),
              HasSubstr("it contains moment1, moment2 of blocks.0.qkv.weight, but the deck's "
                        "optimizer has momentum --"));
  EXPECT_THAT(said_to(muon, OptimizerKind::adamw),
              HasSubstr("it contains momentum of blocks.0.qkv.weight, but the deck's optimizer has "
                        "moment1, moment2 --"));
  EXPECT_THAT(said_to(muon, OptimizerKind::shampoo),
              HasSubstr("it contains momentum of blocks.0.qkv.weight, but the deck's optimizer has "
                        "left, left_root, momentum, right, right_root --"));
  EXPECT_THAT(said_to(shampoo, OptimizerKind::shampoo, true),
              HasSubstr("left/blocks.0.qkv.weight has the shape"));
  EXPECT_EQ(said_to(shampoo, OptimizerKind::shampoo), "");
  EXPECT_EQ(said_to(muon, OptimizerKind::muon, true), "");
  test::meet();
}

// A model of many chunks: no rank reads more than its share, and a chunk at each end of a share.
TEST(Restart, ReadsItsShare) {
  constexpr std::int64_t vocab = 100'003;
  ScratchFolder mine;
  std::string folder = mine.path().string();
  test::world().broadcast(folder);
  for (const auto& l : drawn(layouts(), 3)) {
    if (l.optimizer != OptimizerKind::adamw) continue;
    auto from = parity_case(l.from, l.zero_from, l, l.schedule_from),
         to = parity_case(l.to, l.zero_to, l, l.schedule_to);
    if (!test::next_case(test::name_of(from))) return;
    from.freeze.clear();
    to.freeze.clear();
    CheckpointMeta meta;
    RestartedRun saving(from, 0, vocab);
    saving.trainer->store().initialize(3, 1);
    const auto path =
        StateSaver(saving.trainer->store(), saving.trainer->axes(), folder).save(meta);
    RestartedRun loading(to, 0, vocab);
    CheckpointReader reader(path);
    auto& store = loading.trainer->store();

    load_state(store, reader, loading.trainer->freeze_states());

    double share = 0, edges = 0;
    for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
      const auto id = ParamId::at(i);
      if (!store.holds(id)) continue;
      const auto& p = store.spec().params[i];
      const auto arrays = 1 + static_cast<std::int64_t>(reader.arrays_of(p.name).size());
      share += static_cast<double>(8 * arrays * store.own(id).count());
      edges += static_cast<double>(arrays * std::min(2 * max_chunk_bytes, 8 * p.shape.count()));
    }
    EXPECT_LE(static_cast<double>(reader.bytes_read()), 1.1 * share + edges);
    test::meet();
  }
}

}  // namespace trireme
