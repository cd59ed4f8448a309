"""Mutants that only reorder sums over tokens: they show in "fast" and may not with run.exactness = "invariant"."""
from suites import bits, fast_bits, survives

MUTANTS = [
    ("microbatches in reverse", "lib/train/trainer_step.cpp", "  const auto losses = run(program, Purpose::train, microbatches,",
     "  const std::vector<Batch> reversed(microbatches.rbegin(), microbatches.rend());\n"
     "  const auto losses = run(program, Purpose::train, reversed,", [fast_bits(2), survives(bits(2)), survives(bits(4))]),
    ("contributions of ranks in reverse", "lib/comm/engine/messages.cpp",
     "const int to = (rank + size - k) % size, from = (rank + k) % size;",
     "const int to = (rank + k) % size, from = (rank + size - k) % size;", [fast_bits(4), survives(bits(4))]),
    # Nothing of "fast" runs there.
    ("leaves in reverse", "lib/shard/session.cpp", "for (std::int64_t begin = 0; begin < rows; begin += chunk, how = Accumulate::add) {",
     "for (std::int64_t begin = rows - chunk; begin >= 0; begin -= chunk, how = Accumulate::add) {",
     [survives(bits(2)), survives(bits(4))]),
]
