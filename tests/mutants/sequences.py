"""Mutants of samples that ranks of seq share out: layout, streams of keys, pieces, counts: name, file, right, wrong, suite."""
from suites import program, ranks

LAYOUT = program("ops_test", "SequenceLayout.*")
POSITIONS = ranks(2, "Sequence.Pos*")
BITS = ranks(2, "Sequence.Inv*")
PIECES = program("kernels_test", "*AttentionPieces*")
FIXED = program("kernels_test", "On/FixedEdges.*")

MUTANTS = [
    # which positions
    ("a block is another's", "lib/ops/sequence_layout.cpp", "c % 2 == 0 ? group : groups_ - 1 - group;", "c % 2 == 0 ? group : 0;", LAYOUT),
    ("blocks are not turned round", "lib/ops/sequence_layout.cpp", "c % 2 == 0 ? group : groups_ - 1 - group;", "group;", LAYOUT),
    ("a folded block has the positions of the first", "lib/train/stage.cpp", "for (const auto t : own)\n      position.push_back(documents ?",
     "for (auto t = own[0]; t < own[0] + tokens; ++t)\n      position.push_back(documents ?", POSITIONS),
    ("dropout counts a folded block on from the first", "lib/train/stage.cpp", "batch.position_T.view()};", "{}};", POSITIONS),
    ("chunks begin anywhere", "lib/ops/sequence_layout.cpp", "const auto step = leaf * (key_tile / std::gcd(key_tile, groups_ * leaf));", "const auto step = leaf;", LAYOUT),
    ("a window is a token longer", "lib/ops/sequence_layout.cpp", "queries.begin + 1 - window", "queries.begin - window", LAYOUT),
    ("a window is a token shorter", "lib/ops/sequence_layout.cpp", "queries.begin + 1 - window", "queries.begin + 2 - window", LAYOUT),
    ("what another group needs is what this one needs", "lib/ops/sequence_layout.cpp", "const auto s = seen_by(block(group, q), c, window);",
     "const auto s = seen_by(block(0, q), c, window);", LAYOUT),
    # on their way
    ("a chunk is passed over", "lib/ops/attention_calls.cpp", "if (keys.count() == 0) continue;", "if (keys.count() == 0 || c == 1) continue;", POSITIONS),
    ("the first block of a group is sent for each", "lib/ops/key_stream.cpp", "row += layout.block(me, before).count();", "row += 0 * layout.block(me, before).count();", POSITIONS),
    ("gradients of the last group's queries are lost", "lib/ops/key_stream.cpp", "  for (int g = 0; g < rows_.layout.groups(); ++g) {\n    const auto needed = rows_.needed_of(g, done->c, me);",
     "  for (int g = 0; g + 1 < rows_.layout.groups(); ++g) {\n    const auto needed = rows_.needed_of(g, done->c, me);", POSITIONS),
    ("gradients of other groups are this one's", "lib/ops/key_stream.cpp", ".src = g == me ? rows_of(done->sum_TBGD, first, needed)", ".src = true ? rows_of(done->sum_TBGD, first, needed)", POSITIONS),
    ("gradients of a chunk go to the first block", "lib/ops/attention.cpp", "    row += n;\n    if (counts)", "    if (counts)", POSITIONS),
    ("a piece starts anew", "lib/ops/attention_calls.cpp", "first ? last ? Piece::all : Piece::first", "first || c == 1 ? last ? Piece::all : Piece::first", POSITIONS),
    # sums
    ("a rank's queries are one leaf", "lib/ops/attention_calls.cpp", "const auto step = rows > 0 ? rows : all.count();", "const auto step = all.count();", BITS),
    ("gradients of keys are not counted", "lib/ops/attention.cpp", "const bool counts = leaf > 0;", "const bool counts = false;", BITS),
    ("counts come back as they were", "kernels/host/fixed.cpp", "std::ldexp(1.0F, -o.shift)", "std::ldexp(1.0F, 0 * -o.shift)", FIXED),
    ("sums are read that had no room", "lib/base/fixed.hpp", "return terms * static_cast<double>(largest) < static_cast<double>(gradient_limit);", "return static_cast<double>(largest) < static_cast<double>(gradient_limit) + 0 * terms;", FIXED),
    ("the largest term is not kept", "kernels/host/attention_grad.cpp", "      largest.put(g_.largest);\n", "", PIECES),
    ("a state is lost between pieces", "kernels/host/attention.cpp", "if (!begins_keys(a_.piece)) return;", "if (false) return;", PIECES),
    ("a soft cap has no slope", "kernels/host/attention_grad.cpp", "(1 - of_cap * of_cap)", "(1 - 0 * of_cap)", program("kernels_test", "*AttentionContract*")),
    ("kept keys have no soft cap", "kernels/host/cached_attention.cpp", "    if (a.softcap > 0) cap_scores(s, whole, a.softcap);\n", "", program("kernels_test", "*CachedContract*")),
    ("gradients of keys start anew", "kernels/host/attention_grad.cpp", "if (g_.keys == Accumulate::overwrite || counts) {", "if (true) {", PIECES),
]
