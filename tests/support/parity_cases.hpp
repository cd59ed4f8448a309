#pragma once
// Trainings whose numbers are the same on every grid: the combinations of settings that a suite
// runs, their model and their step. Without MPI.
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lib/plan/plan.hpp"

namespace trireme::test {

struct ParityCase {
  Grid grid;
  // gpt2 (12 kv heads, tied), llama (3, untied), gqa, qwen (3, tied); llama with experts: mixture
  // (2 of 5 beside a gated shared one, loss by sample), sigmoid (3 of 6, a bias that moves); llama
  // with few heads, so that positions are shared out: two (1 kv head, windows in some
  // blocks, sinks), two_experts (as two, and as mixture), one (gpt2); olmo2 (llama with norms
  // behind, and of all queries and all keys), gemma2 and gemma3 (gqa with all that is theirs),
  // scaled (llama with all factors, blocks that do not turn and heads that turn in part); sigmoid
  // has norms in front and behind
  std::string flavour = "gpt2";
  ZeroConfig zero;
  int microbatches = 2;  // of each data rank
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;
  std::int64_t chunk_tokens = 0;  // that blocks take at a time; one rank takes all
  double dropout = 0;
  std::int64_t adapter_rank = 0;
  bool dora = false;
  BaseType base = BaseType::compute;  // what adapters stand beside
  bool documents = false;             // data.attention = "document"
  bool weighted = false;              // documents have weights, with tokens and distill
  // distill: of a smaller llama, under a soft cap. Samples of other objectives than tokens and
  // distill are pairs or labeled answers. dpo and kto: against the model without adapters, or
  // scores where it has none.
  Objective objective = Objective::tokens;
  OptimizerKind optimizer = OptimizerKind::sgd;
  double momentum = 0;  // of sgd
  bool nesterov = true;
  bool each_head = false;  // of muon and shampoo: every other choice than the usual one
  double ema = 0;
  std::optional<double> clip;  // else none with sgd, 1 with others
  std::vector<FreezeRule> freeze;
  std::vector<std::int64_t> stage_layers;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  std::string backend = "ref";
  TransportKind transport = TransportKind::host;  // device: device_on_host
  DType compute = DType::f64, reduce = DType::f64;
  ProductType products = ProductType::compute;  // fp8: with exact_chunk alone
  Fp8Weights fp8;                               // with products in fp8
  std::int64_t exact_chunk = 0;
  int steps = 3;
  std::int64_t size = 16;    // samples of a step, positions of a sample
  std::int64_t context = 0;  // other positions of a sample than `size`
  std::int64_t layers = 8;
  std::int64_t head_dim = 4;  // of the flavours of one or two heads
  std::int64_t width = 24;    // 144: weights of several tiles in fp8
};
std::string name_of(const ParityCase&);
inline std::ostream& operator<<(std::ostream& out, const ParityCase& c) {
  return out << name_of(c);
}

// 8 layers, 12 query heads but for those of few.
ModelConfig parity_model(const ParityCase&);
std::int64_t parity_context(const ParityCase&);  // tokens of a sample
TrainerSetup parity_setup(const ParityCase&);
bool trains_on_pairs(const ParityCase&);
// Its step as input of a plan, without an evaluation.
PlanInput plan_input(const ParityCase&);

// Every setting of every pair of factors at least once, for grids of that many ranks.
std::vector<ParityCase> pairwise_cases(int ranks);
// A handful that crosses all axes, in seconds: for 1, 2, 4 or 8 ranks.
std::vector<ParityCase> few_cases(int ranks);
// The same for 32, 64 or 128 ranks, with shards of a part of a stage and whole copies of it.
std::vector<ParityCase> many_cases(int ranks);
// With run.exactness = "invariant": these; every setting of every pair of more factors at least
// once, for grids of that many ranks; a selection in which every pair of settings but the grid
// meets somewhere on 1 to 8 ranks, and every grid of these has a case.
std::vector<ParityCase> exact_cases(std::vector<ParityCase>, const char* backend, DType compute);
std::vector<ParityCase> exact_pairs(int ranks, const char* backend, DType compute);
std::vector<ParityCase> exact_selection(int ranks, const char* backend, DType compute);
// One case for each grid, in f32 on memory that the host may not touch; some send bf16.
std::vector<ParityCase> fenced_cases(int ranks);
// One case for each grid, in f32 between devices; some send bf16.
std::vector<ParityCase> device_wire_cases(int ranks);
// Makes it one between devices, where a stage has one chunk.
void between_devices(ParityCase&);
// Every grid of each of these numbers of ranks.
std::vector<Grid> parity_grids(const std::vector<int>& ranks);
// Every setting of every `size` of the other factors at least once; of those that mean the same on
// this grid, one.
std::vector<ParityCase> covering_cases(const Grid&, std::size_t size);

}  // namespace trireme::test
