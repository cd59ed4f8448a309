"""Mutants of optimizers that see whole matrices, among them mistakes that other trainers had: name, file, right, wrong, suite."""
from suites import program, ranks

UPDATES = "lib/shard/matrix_updates.cpp"


def on_grids(n=2, cases="Optimizer.OfMatrices*"):
    return ranks(n, cases)


NORM_OF_EACH_PART = """for_each_part([&](const OwnedMatrix&, Range r, std::int64_t at) {
      const View x = part(sent_, at, r);
      const Tensor norm = Tensor::empty(g_.backend, {1}, g_.master(), MemoryKind::transient);
      g_.backend.put(Queue::compute, kernel::RowNorms{.norm_N = norm.view(), .x_NC = x.reshaped({1, r.count()})});
      g_.backend.put(Queue::compute, kernel::ScaleColumns{.y_TN = x.reshaped({r.count(), 1}), .x_TN = x.reshaped({r.count(), 1}), .divisor_N = norm.view()});
    });
    exchange_parts(Way::to_owner);"""

MUTANTS = [
    ("matrices are updated once for each microbatch", "lib/train/trainer_step.cpp", "  update(lr, clip > 0 ?", "  for (int m = 0; m < count; ++m) update(lr, clip > 0 ?", on_grids()),
    ("adamw has the matrices of muon without a word", "lib/train/trainer.cpp", "if (setup_.trainable && sees_matrices(setup_.optimizer.name))",
     "if (false && sees_matrices(setup_.optimizer.name))", on_grids(1)),
    ("an owner sees a part of its matrix", UPDATES, "owned[index(rank)] = whole_.slice(r.begin - m->elements.begin, {r.count()}).view();",
     "owned[index(rank)] = whole_.slice(0, {r.count()}).view();", on_grids()),
    ("steps are clipped, not gradients alone", UPDATES, "factors.scale = scale_of(", "factors.scale *= scale_of(", on_grids(1)),
    ("gradients of matrices are not clipped", UPDATES, "      factors.lr = -1;\n", "      factors.lr = -1;\n      factors.scale = 1;\n", on_grids(1)),
    ("a restart loses the momentum", "lib/train/state.cpp", "for (const auto& array : saved) wanted.push_back({p, array});",
     "for (const auto& array : saved) if (array != \"momentum\") wanted.push_back({p, array});", on_grids(2, "Restart.OfMatrices*")),
    ("a restart looks for squares where weights are", "lib/shard/shards.cpp", "            sharding_.own(segment, square->elements)};", "            sharding_.own(segment)};",
     on_grids(2, "Restart.OfMatrices*")),
    ("packed weights are one matrix", "lib/shard/matrices.cpp", "for (const auto& part : p.packed) {", "for (const auto& part : std::vector<PackedRows>{}) {",
     [program("shard_test", "Matrices.*"), on_grids(1)]),
    ("products of an adapter are one matrix", "lib/shard/matrices.cpp", "divide(all, id, 0, rows, adapter.rank, columns);", "divide(all, id, 0, rows, rows, columns);",
     [program("shard_test", "Matrices.*"), on_grids(1)]),
    ("the norm is that of a part of the matrix", UPDATES, "exchange_parts(Way::to_owner);", NORM_OF_EACH_PART, on_grids()),
    ("adamw beside muon has the rate of matrices", "lib/shard/store.cpp", "slice.kind.lr_factor * rules_->lr_factor", "slice.kind.lr_factor", on_grids(1)),
    ("adamw beside muon has the decay of matrices", "lib/shard/store.cpp", "rules_->decay.value_or(factors.decay)", "factors.decay", on_grids(1)),
    ("a matrix that never decays does", UPDATES, "if (m.elements.begin >= s.decayed) f.decay = 0;", "", on_grids(1)),
    ("both factors of an adapter have one rate", UPDATES, "    f.lr *= spec.params[m.matrix.param.index()].lr_factor;\n", "", on_grids(1)),
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
