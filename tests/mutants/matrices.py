"""Mutants of optimizers that see whole matrices, among them mistakes that other trainers had: name, file, right, wrong, suite."""
from suites import program, ranks

MUON = program("matrix_test", "*NewtonSchulz*")
SHAMPOO = program("matrix_test", "*Shampoo*:InverseRoot.*")
UPDATES, ROUND = "lib/shard/matrix_updates.cpp", "lib/shard/rank_round.cpp"


def on_grids(n=2, cases="Optimizer.OfMatrices*"):
    return ranks(n, cases)


NORM_OF_EACH_PART = """for_each_part([&](const OwnedMatrix&, Range r, std::int64_t at) {
      const View x = part(sent_, at, r);
      const Tensor norm = Tensor::empty(update_.model.backend, {1}, update_.master(), MemoryKind::transient);
      update_.model.backend.put(Queue::compute, kernel::RowNorms{.norm_N = norm.view(), .x_NC = x.reshaped({1, r.count()})});
      update_.model.backend.put(Queue::compute, kernel::ScaleColumns{.y_TN = x.reshaped({r.count(), 1}), .x_TN = x.reshaped({r.count(), 1}), .divisor_N = norm.view()});
    });
    exchange_parts(Way::to_owner);"""

MUTANTS = [
    # Newton-Schulz iterations
    ("wide matrices are transposed", "lib/matrix/newton_schulz.cpp", "rows > columns ? v.transposed() : v", "rows < columns ? v.transposed() : v", MUON),
    ("a coefficient of Jordan's has two digits exchanged", "lib/matrix/newton_schulz.cpp", "2.0315}", "2.0135}", MUON),
    ("a coefficient of Polar Express has another sign", "lib/matrix/newton_schulz.cpp", "-2.772484153217685", "2.772484153217685", MUON),
    ("matrices below eps become orthogonal", "lib/matrix/newton_schulz.cpp", "method.factor, method.eps,", "method.factor, 0,", MUON),
    ("the norm has no factor", "lib/matrix/newton_schulz.cpp", "method.factor, method.eps,", "1, method.eps,", MUON),
    ("scratch for one square too few", "lib/matrix/newton_schulz.cpp", "rows * columns + 3 * small * small", "rows * columns + 2 * small * small", MUON),
    ("the last step writes scratch", "lib/matrix/newton_schulz.cpp", "method.steps.size() % 2 == 1", "method.steps.size() % 2 == 0", MUON),
    ("the diagonal is a column", "lib/matrix/scaling.cpp", "a_NN.stride[0] + a_NN.stride[1]", "a_NN.stride[0]", SHAMPOO),
    # scales
    ("Jordan's scale exchanges out and in", "lib/matrix/matrix_rule.cpp", "std::max(1.0, rows / columns)", "std::max(1.0, columns / rows)", program("matrix_test", "MatrixRule.*")),
    ("the scale of AdamW's steps is that of the smaller side", "lib/matrix/matrix_rule.cpp", "std::max(rows, columns)", "std::min(rows, columns)", program("matrix_test", "MatrixRule.*")),
    # Shampoo
    ("averages add whole products", "lib/matrix/shampoo.cpp", ".factor = 1 - beta}", ".factor = 1}", SHAMPOO),
    ("roots wait for the first multiple", "lib/matrix/shampoo.cpp", "matrix.count == 1 || ", "", SHAMPOO),
    ("squares that overflow reach the averages", "lib/matrix/shampoo.cpp", "  drop_extremes(b, g_MN, Scratch(wide));\n", "", SHAMPOO),
    ("roots have no eps", "lib/matrix/inverse_root.cpp", "  add_to_diagonal(b, m_NN, z * eps, wide);\n", "", SHAMPOO),
    ("roots have one factor too few", "lib/matrix/inverse_root.cpp", "for (int factor = 1; factor <", "for (int factor = 2; factor <", SHAMPOO),
    ("the largest eigenvalue does not count", "lib/matrix/inverse_root.cpp", "std::max(1 - least, std::abs(1 - most)) > 1e-12", "1 - least > 1e-12", SHAMPOO),
    ("a trace is divided by, however small", "lib/matrix/inverse_root.cpp",
     "  b.put(Queue::compute, kernel::Copy{.dst = trace_1, .src = least_1, .how = Accumulate::add});\n", "", SHAMPOO),
    # updates, owners and arrays
    ("matrices are updated once for each microbatch", "lib/train/trainer_step.cpp", "  update(lr, clip > 0 ?", "  for (int m = 0; m < count; ++m) update(lr, clip > 0 ?", on_grids()),
    ("adamw has the matrices of muon without a word", "lib/train/trainer.cpp", "if (setup_.trainable && sees_matrices(setup_.optimizer.name))",
     "if (false && sees_matrices(setup_.optimizer.name))", on_grids(1)),
    ("an owner sees a part of its matrix", ROUND, "owned[index(rank)] = whole_.slice(r.begin - m->elements.begin, {r.count()}).view();",
     "owned[index(rank)] = whole_.slice(0, {r.count()}).view();", on_grids()),
    ("steps are clipped, not gradients alone", ROUND, "factors.scale = scale_of(", "factors.scale *= scale_of(", on_grids(1)),
    ("directions are added to what memory contains", ROUND,
     "wide_.slice(0, {used}).view(), .value = 0}", "wide_.slice(0, {used}).view(), .value = 1}", on_grids(1)),
    ("gradients of matrices are not clipped", ROUND, "    factors.lr = -1;\n", "    factors.lr = -1;\n    factors.scale = 1;\n", on_grids(1)),
    ("a restart loses the momentum", "lib/train/state.cpp", "for (const auto& array : saved) wanted.push_back({p, array});",
     "for (const auto& array : saved) if (array != \"momentum\") wanted.push_back({p, array});", on_grids(2, "Restart.OfMatrices*")),
    ("a restart looks for squares where weights are", "lib/shard/shards.cpp", "*square.slot_of(p), sharding_.own(segment, square.elements)};", "*square.slot_of(p), sharding_.own(segment)};",
     on_grids(2, "Restart.OfMatrices*")),
    ("arrays of matrices begin with the shard", "lib/shard/shards.cpp", "r.begin - intersection(own, elements).begin", "r.begin - own.begin", on_grids(1)),
    ("arrays of matrices are read from the beginning of the shard", "lib/shard/shards.cpp",
     "where.slot, intersection(sharding_.own(segment), a.elements)};", "where.slot, sharding_.own(segment)};", on_grids(2, "Restart.OfMatrices*")),
    ("matrices are updated element by element, too", "lib/shard/store.cpp", "    if (slot.begin >= segment.matrices_begin) break;\n", "", on_grids(1)),
    ("packed weights are one matrix", "lib/shard/matrices.cpp", "for (const auto& part : p.packed) {", "for (const auto& part : std::vector<PackedRows>{}) {",
     [program("shard_test", "Matrices.*"), on_grids(1)]),
    ("a packed weight is divided at other rows", "lib/model/spec.cpp", '{{"q", 0, q}, {"k", q, kv}, {"v", q + kv, kv}}', '{{"q", 0, kv}, {"k", kv, q}, {"v", q + kv, kv}}',
     [program("shard_test", "Matrices.*"), on_grids(1)]),
    ("products of an adapter are one matrix", "lib/shard/matrices.cpp", "divide(all, id, 0, rows, adapter.rank, columns);", "divide(all, id, 0, rows, rows, columns);",
     [program("shard_test", "Matrices.*"), on_grids(1)]),
    ("the norm is that of a part of the matrix", ROUND, "exchange_parts(Way::to_owner);", NORM_OF_EACH_PART, on_grids()),
    ("adamw beside muon has the rate of matrices", "lib/shard/store.cpp", "slice.kind.lr_factor * rules_->lr_factor", "slice.kind.lr_factor", on_grids(1)),
    ("adamw beside muon has the decay of matrices", "lib/shard/store.cpp", "rules_->decay.value_or(factors.decay)", "factors.decay", on_grids(1)),
    ("a matrix that never decays does", ROUND, "  if (!model.layout.of_param[m.matrix.param.index()]->slot.decays) f.decay = 0;\n", "", on_grids(1)),
    ("both factors of an adapter have one rate", ROUND, "  f.lr *= model.spec.params[m.matrix.param.index()].lr_factor;\n", "", on_grids(1)),
    ("frozen matrices move", UPDATES, "s.of_experts == of_experts && trainability.trains(s)", "s.of_experts == of_experts", on_grids(2, "Optimizer.StandsStill*")),
    ("small matrices are dealt out first", "lib/shard/matrix_plan.cpp", "std::greater{}, &OwnedMatrix::cost", "std::less{}, &OwnedMatrix::cost",
     program("shard_test", "MatrixPlan.*")),
    ("a matrix goes to who holds least of it", "lib/shard/matrix_plan.cpp", "std::ranges::max_element(ranks, {}, share)", "std::ranges::min_element(ranks, {}, share)",
     program("shard_test", "MatrixPlan.*")),
    ("the largest part of a round is forgotten", "lib/shard/matrix_plan.cpp", "plan.sizes.held = std::max(plan.sizes.held, in_round);", "plan.sizes.held = in_round;",
     program("shard_test", "MatrixPlan.*")),
    ("plans judge numbers that they have not", "lib/train/trainer_step.cpp", "if (backend_.keeps_values()) judge(", "judge(",
     program("plan_test", "*FormulasOnRanks.EqualThePlansOfAllPairs*")),
]
