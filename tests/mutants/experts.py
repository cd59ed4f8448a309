"""Mutants of mixtures of experts: routers, rounds, who has which expert, balance: name, file, right, wrong, suite."""
from suites import program, ranks
from engine import few

GRADIENT = program("train_test", "*ModelGradient*mixture")
ROUTING = program("train_test", "Routing.*:BiasChange.*")
ROUNDS = program("ops_test", "ExpertRounds.*")
DOCUMENTS = program("train_test", "*Documents.*mixture*")
TRAVEL = ranks(3, "Adjoint.Tokens*")

MUTANTS = [
    # who has which expert
    ("a rank's experts are another's", "lib/comm/grid.cpp", "rank * each + std::min<std::int64_t>(rank, more)",
     "rank * each", program("comm_test", "OwnedExperts.*")),
    ("experts are shared out as all else", "lib/shard/sharding.hpp", "return s.of_experts ? experts : stage;",
     "return stage;", few(2)),
    ("the norm has the experts of one rank", "lib/shard/sharding.hpp",
     "return of(s).replicas.rank() == 0 && holds_sum(s);", "return stage.replicas.rank() == 0 && holds_sum(s);", few(2)),
    ("the norm counts experts once a copy", "lib/shard/sharding.hpp",
     "return of(s).replicas.rank() == 0 && holds_sum(s);",
     "return (s.of_experts || of(s).replicas.rank() == 0) && holds_sum(s);", few(4)),
    ("updates of the first rank's experts alone", "lib/train/state_saver.cpp",
     "params[i].expert >= 0 ? axes.grid.expert : 1;", "1;", ranks(4, "Restart.On*")),
    # on their way
    ("a leaf is divided between two rounds", "lib/ops/expert_rounds.cpp", "rows_of_round(c, all, owned, wanted), c.leaf_rows == 0);",
     "rows_of_round(c, all, owned, wanted), true);", ROUNDS),
    ("a round takes all there is", "lib/ops/expert_rounds.cpp", "cut(pieces_of(c, owned), rows_of_round(c, all, owned, wanted),",
     "cut(pieces_of(c, owned), 0 * rows_of_round(c, all, owned, wanted) + (1 << 30),", ROUNDS),
    ("a round's rows begin where the last one's did", "lib/ops/expert_rounds.cpp", "      begin += mine;", "      begin += i > 0 ? mine : 0 * mine;", ROUNDS),
    ("rows go back in the order of experts", "lib/ops/token_dispatch.cpp", "back.rows_NC, back_.slice(first, {n}));",
     "back.rows_NC, place_.slice(first, {n}));", TRAVEL),
    ("a chunk's rows stand where the first chunk's do", "lib/ops/token_dispatch.cpp", "place_.slice(first, {n}));",
     "place_.slice(0, {n}));", TRAVEL),
    ("a chunk's rows are of the first experts", "lib/ops/token_dispatch.cpp", "first_expert_.push_back(o.back() > 0 ? first : 0);",
     "first_expert_.push_back(0);", few(2)),
    ("backward forgets later rounds", "lib/ops/experts_over_ranks.cpp", "  for (std::size_t i = 0; i < rounds.all.size(); ++i) {\n    const TokenDispatch",
     "  for (std::size_t i = 0; i < 1; ++i) {\n    const TokenDispatch", few(2)),
    ("halves forget later rounds", "lib/ops/experts_over_ranks.cpp", "  for (std::size_t i = 0; i < rounds.all.size(); ++i) {\n    const auto of",
     "  for (std::size_t i = 0; i < 1; ++i) {\n    const auto of", ranks(4, "Parity.OfSettings*")),
    ("the shared expert is forgotten over ranks", "lib/ops/experts_over_ranks.cpp", "skip_of(in), kind)};", "{}, kind)};", few(2)),
    # the router
    ("outputs of experts are not weighed", "lib/ops/expert_mlp.cpp",
     '                     .gate_up_T2F = first_rows(made.gate_up, n).reshaped({n, 2, p_.width}),\n                     .weight_T = weights_of(rows),',
     '                     .gate_up_T2F = first_rows(made.gate_up, n).reshaped({n, 2, p_.width}),\n                     .weight_T = {},', GRADIENT),
    ("no gradient comes through the choice", "lib/ops/expert_inputs.hpp", "  if (wanted[in_weight])", "  if (false)", GRADIENT),
    ("ties go to the higher index", "kernels/host/routing.cpp", "return a > b || (std::isnan(b) && !std::isnan(a)); };",
     "return a >= b || (std::isnan(b) && !std::isnan(a)); };", program("kernels_test", "*Routing*")),
    ("the bias weighs", "kernels/ref/routing.cpp", "weight.put(o.normalize ? s[e] / sum : s[e], t, k);",
     "weight.put(o.normalize ? s[e] / sum : chosen_by[e], t, k);", program("train_test", "Routing.TheBiasChooses*")),
    ("the bias chooses nothing", "lib/ops/router.cpp", ".bias_E = bias_ == ParamId{} ? ConstView{} : run.weights[bias_],",
     ".bias_E = {},", program("train_test", "Routing.TheBiasChooses")),
    ("normalized weights have the gradient of others", "kernels/ref/routing.cpp", "  if (o.normalize) {\n    sum = 0;",
     "  if (false) {\n    sum = 0;", program("kernels_test", "RefGradient.Rout*")),
    ("an idle expert keeps its last gradient", "kernels/ref/grouped.cpp", "if ((rows == 0 || counts) && o.how", "if (counts && o.how",
     program("kernels_test", "*Grouped*")),
    ("a shared expert's gate is always open", "lib/model/feed_forward.cpp", "if (gate != ParamId{}) gate_.emplace(gate);",
     "(void)gate;", ROUTING),
    ("dense blocks have experts", "lib/model/config.cpp", "return c.experts > 0 && std::ranges::find(c.dense_layers, layer) == c.dense_layers.end();",
     "return c.experts > 0 && layer >= 0;", ROUTING),
    # balance
    ("loads of this rank alone", "lib/train/routing.cpp", "  world.all_reduce(sums);\n", "", few(2)),
    ("loads of a forward that is run again", "lib/train/stage.cpp", "run_of(batch, m, weights, c.late(i) ? now : nullptr);",
     "run_of(batch, m, weights, c.late(i) ? now : nullptr, settings_.totals);", ROUTING),
    ("z by microbatch", "lib/train/trainer_step.cpp", "settings.z_scale = setup_.router_z / tokens;",
     "settings.z_scale = setup_.router_z / tokens * static_cast<double>(microbatches.size());", few(2)),
    ("a sample is balanced on each rank by itself", "lib/ops/router.cpp", "  for (int r = 0; r < ranks_counted(run); ++r)",
     "  for (int r = run.seq.rank(), first = r; r == first; ++r)", few(2)),
    ("all samples of a microbatch are balanced as one", "kernels/ref/routing.cpp", "++count[as / in_a_row * E + choice[t * K + k]];",
     "++count[as / in_a_row * 0 * E + choice[t * K + k]];", program("kernels_test", "*Count*")),
    ("documents are balanced by sample", "lib/ops/router.cpp", "run.pass.counted_RBT ? choice_RTK.shape()[0] / ranks_counted(run) : samples;",
     "samples;", DOCUMENTS),
    ("documents of other ranks are counted in the first's", "lib/train/counted_tokens.cpp", "std::vector<std::int32_t> first(samples * all, -1);",
     "std::vector<std::int32_t> first(samples * all, 0);", program("train_test", "CountedTokens.*")),
    ("padding is in the mean", "lib/train/counted_tokens.cpp", "if (share.tokens_B.empty()) return", "if (true) return", DOCUMENTS),
    ("padding is in the loads", "kernels/ref/routing.cpp", "    if (as < 0) continue;\n", "    if (as < 0) ++count[choice[t * K]];\n    if (as < 0) continue;\n", DOCUMENTS),
    ("padding is in the losses", "kernels/host/routing.cpp", "  if (counted_as(o.counted_T, t) < 0) return;\n  if (o.count_BE) {",
     "  if (o.count_BE && counted_as(o.counted_T, t) >= 0) {", program("kernels_test", "*RoutingContract.RouterLosses*")),
    ("padding has a gradient", "kernels/host/routing.cpp", "    if (counted_as(o.counted_T, t) < 0) return;\n    if (o.dweight_TK && o.normalize)",
     "    if (o.dweight_TK && o.normalize)", program("kernels_test", "*RoutingContract.RouteGradient*")),
    ("a bias falls where a load is low", "lib/train/routing.cpp", "above < 0 ? rate : -rate", "above < 0 ? -rate : rate", ROUTING),
    ("a frozen bias moves", "lib/train/trainer_step.cpp", "    if (moves && freeze_states_[p.index()].trained)\n      store_.add", "    if (moves)\n      store_.add", ROUTING),
    ("a bias is rounded to the compute type", "lib/shard/shards.hpp", "return s.wide ? master() : compute_;",
     "return compute_;", ranks(2, "Exactness.InvariantHasTheBitsOfOneRankInBf16")),
]
