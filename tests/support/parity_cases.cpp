#include "tests/support/parity_cases.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "lib/base/rng.hpp"
#include "tests/support/parity_factors.hpp"

namespace trireme::test {

namespace {

// Of those that mean the same on their grid, one.
std::vector<ParityCase> without_repeats(std::vector<ParityCase> cases) {
  std::set<std::string> names;
  std::erase_if(cases, [&](const ParityCase& c) { return !names.insert(name_of(c)).second; });
  return cases;
}

std::vector<Factor> factors_on(const Grid& grid) {
  auto all = factors(grid.ranks());
  std::erase_if(all[0], [&](const Change& choose) {
    ParityCase c;
    choose(c);
    return c.grid != grid;
  });
  return all;
}

}  // namespace

std::vector<ParityCase> pairwise_cases(int ranks) {
  return covering_cases(factors(ranks), 2);
}

std::vector<ParityCase> exact_cases(std::vector<ParityCase> cases, const char* backend,
                                    DType compute) {
  for (auto& c : cases) {
    c.backend = backend;
    c.compute = compute;
    c.reduce = DType::f32;
    c.objective = Objective::tokens;  // others are refused
    c.exact_chunk = 2;                // divides what each of up to 8 ranks has
  }
  return cases;
}

std::vector<ParityCase> exact_pairs(int ranks, const char* backend, DType compute) {
  return exact_cases(covering_cases(exact_factors(factors(ranks, Objectives::tokens)), 2), backend,
                     compute);
}

std::vector<ParityCase> exact_selection(int ranks, const char* backend, DType compute) {
  auto all = exact_factors(factors(1, Objectives::tokens));
  all[0].clear();
  for (int n = 1; n <= 8; ++n) std::ranges::copy(grids(n), std::back_inserter(all[0]));
  std::vector<ParityCase> cases;
  std::size_t grid = 0;
  for (auto choice : covering_choices(settings_of(all), 2, 1)) {
    choice[0] = grid++ % all[0].size();
    cases.push_back(make_case(all, choice));
  }
  std::erase_if(cases, [&](const ParityCase& c) { return c.grid.ranks() != ranks; });
  return exact_cases(std::move(cases), backend, compute);
}

std::vector<ParityCase> few_cases(int n) {
  std::vector<ParityCase> cases(20);
  for (auto& c : cases) c.zero.stage = 3;
  cases[0].grid = {n >= 2 ? 2 : 1, 1, n >= 4 ? n / 2 : 1};
  cases[0].dropout = 0.1;
  cases[0].recompute = Recompute::block;
  cases[0].microbatches = 4;
  cases[0].optimizer = OptimizerKind::adamw;
  cases[1].grid = {1, n >= 4 ? n / 2 : 1, n >= 4 ? 2 : n};
  cases[1].flavour = "mixture";
  cases[1].grid.expert = cases[1].grid.places() > 1 ? 2 : 1;
  cases[1].microbatches = 4;
  cases[2].grid = {n >= 4 ? 2 : 1, n >= 4 ? n / 2 : n, 1};
  cases[2].flavour = "gqa";
  cases[2].zero.stage = 1;
  cases[2].objective = Objective::distill;
  cases[3].grid = {1, n, 1};
  cases[3].chunk_tokens = 6;
  cases[3].zero.shard = n >= 4 ? n / 2 : 1;
  cases[3].zero.reduce = ZeroCadence::step;
  cases[3].microbatches = cases[3].size / n >= 4 ? 4 : 1;
  cases[4].grid = {n, 1, 1};
  cases[4].microbatches = 8;
  // Learned positions, and rotary ones.
  cases[5] = cases[0];
  cases[6] = cases[1];
  cases[5].documents = cases[6].documents = true;
  cases[7] = cases[8] = cases[0];
  cases[7].recompute = Recompute::none;
  cases[7].schedule = ScheduleKind::zero_bubble;
  cases[7].flavour = "qwen";
  cases[8].schedule = ScheduleKind::interleaved;
  cases[8].chunks = 2;
  cases[9].grid = {1, n, 1};
  cases[9].grid.expert = n > 1 ? 2 : 1;
  cases[9].flavour = "sigmoid";
  cases[9].zero.stage = 0;
  cases[9].microbatches = 4;
  cases[10] = cases[8];
  cases[10].schedule = ScheduleKind::zbv;
  cases[11] = cases[0];
  cases[11].flavour = "olmo2";
  cases[11].recompute = Recompute::none;
  cases[11].optimizer = OptimizerKind::sgd;
  cases[12] = cases[7];
  cases[12].flavour = "gemma2";
  cases[13] = cases[3];
  cases[13].flavour = "gemma3";
  cases[14] = cases[7];
  cases[14].base = BaseType::nf4;
  cases[15] = cases[3];
  cases[15].base = BaseType::bf16;
  cases[15].zero = cases[2].zero;
  cases[16] = cases[0];
  cases[16].flavour = "scaled";
  cases[17] = cases[1];
  cases[17].flavour = "gpt_oss";
  cases[18] = cases[7];
  cases[18].flavour = "gpt_oss";
  cases[14].adapter_rank = cases[15].adapter_rank = 2;
  cases[4].objective = Objective::simpo;
  cases[6].objective = Objective::orpo;
  cases[9].objective = Objective::simpo;
  cases[11].objective = Objective::dpo;
  cases[14].objective = Objective::dpo;
  cases[16].objective = Objective::orpo;
  cases[12].objective = cases[15].objective = Objective::kto;
  cases[19] = cases[7];
  cases[19].adapter_rank = 2;
  cases[19].dora = true;
  for (const std::size_t i : {0, 1, 5, 10, 11}) cases[i].chunk_tokens = 6;
  for (const std::size_t i : {0, 2, 3, 5, 8, 13, 17}) cases[i].weighted = true;
  for (auto& c : cases)
    if (c.size % (c.grid.data * c.microbatches) != 0) c.microbatches = 1;
  return cases;
}

std::vector<ParityCase> many_cases(int n) {
  std::vector<ParityCase> cases(6);
  for (auto& c : cases) {
    c.size = 32;
    c.steps = 2;
    c.zero.stage = 3;
  }
  cases[0].grid = {4, n / 16, 4};
  cases[0].zero.shard = n / 8;  // two copies of each stage
  cases[0].microbatches = 4;
  cases[0].dropout = 0.1;
  cases[0].recompute = Recompute::block;
  cases[1].grid = {2, n / 8, 4};
  cases[1].flavour = "llama";
  cases[1].optimizer = OptimizerKind::adamw;
  cases[2].grid = {4, n / 4, 1};
  cases[2].flavour = "gqa";
  cases[2].zero.stage = 1;
  cases[2].zero.shard = 4;
  cases[2].microbatches = 1;
  cases[3].grid = {8, n / 32, 4};
  cases[3].flavour = "qwen";
  cases[3].schedule = ScheduleKind::zero_bubble;
  cases[3].microbatches = 8;
  cases[3].objective = Objective::distill;
  cases[4].grid = {4, n / 16, 4};
  cases[4].zero.stage = 2;
  cases[4].schedule = ScheduleKind::interleaved;
  cases[4].chunks = 2;
  cases[4].microbatches = 4;
  cases[5].grid = {1, n / 8, 8};  // 12 heads: some ranks have two
  cases[5].zero.stage = 0;
  cases[5].documents = true;
  cases[3].weighted = cases[5].weighted = true;
  return cases;
}

std::vector<ParityCase> covering_cases(const Grid& grid, std::size_t size) {
  return without_repeats(covering_cases(factors_on(grid), size));
}

// One for each grid, the other settings drawn.
static std::vector<ParityCase> f32_cases(int ranks, std::uint64_t draw) {
  const auto all = factors(ranks);
  std::vector<ParityCase> cases;
  for (std::size_t grid = 0; grid < all[0].size(); ++grid) {
    Choice choice{grid};
    for (std::size_t f = 1; f < all.size(); ++f) choice.push_back(mix64(++draw) % all[f].size());
    auto c = make_case(all, choice);
    c.compute = DType::f32;
    c.reduce = grid % 3 == 2 ? DType::bf16 : DType::f32;
    c.optimizer = OptimizerKind::sgd;  // Adam divides rounding by rounding where a gradient is 0
    c.steps = 2;
    cases.push_back(c);
  }
  return cases;
}

void between_devices(ParityCase& c) {
  c.transport = TransportKind::device;
  if (c.chunks == 1) return;
  c.schedule = ScheduleKind::zero_bubble;
  c.chunks = 1;
}

std::vector<ParityCase> fenced_cases(int ranks) {
  auto cases = f32_cases(ranks, 0);
  // Keys and values that stream past.
  for (const bool documents : {false, true}) {
    if (ranks == 1) break;
    ParityCase c;
    c.grid = {1, 1, ranks};
    c.size = 2 * ranks * std::max(1, 8 / ranks);
    c.flavour = documents ? "two" : "one";
    c.documents = documents;
    c.compute = c.reduce = DType::f32;
    c.steps = 2;
    cases.push_back(c);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i].backend = "fenced";
    if (i % 3 != 1) continue;
    cases[i].adapter_rank = 2;
    if (i % 2 == 0) cases[i].base = BaseType::nf4;
  }
  return cases;
}

std::vector<ParityCase> device_wire_cases(int ranks) {
  auto cases = f32_cases(ranks, 1000);
  for (auto& c : cases) {
    c.backend = "host";
    between_devices(c);
  }
  return cases;
}

std::vector<Grid> parity_grids(const std::vector<int>& ranks) {
  std::vector<Grid> grids;
  for (const int n : ranks)
    for (int pipe = 1; pipe <= n; ++pipe)
      for (int seq = 1; pipe * seq <= n; ++seq)
        if (n % (pipe * seq) == 0) grids.push_back({pipe, n / (pipe * seq), seq});
  return grids;
}

}  // namespace trireme::test
