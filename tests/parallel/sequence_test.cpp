// More ranks of seq than heads: positions are shared out, keys and values stream past. The same
// numbers as on one rank, and with run.exactness = "invariant" the same bits.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme::test {
namespace {

std::vector<ParityCase> cases(int ranks) {
  std::vector<ParityCase> all;
  for (const char* flavour : {"one", "two", "two_experts"})
    for (const Grid& grid : {Grid{1, 1, ranks}, Grid{2, 1, ranks / 2}, Grid{1, 2, ranks / 2}}) {
      if (grid.ranks() != ranks || grid.seq == 1) continue;
      ParityCase c;
      c.grid = grid;
      c.flavour = flavour;
      c.size = ranks == 3 ? 12 : 16;
      c.steps = 2;
      all.push_back(c);
      c.zero.stage = 3;
      c.recompute = Recompute::block;
      c.dropout = 0.1;
      c.documents = true;
      c.schedule = grid.pipe > 1 ? ScheduleKind::zero_bubble : c.schedule;
      all.push_back(c);
    }
  return all;
}

TEST(Sequence, PositionsAreSharedOut) {
  for (const auto& c : cases(world().size())) {
    SCOPED_TRACE(name_of(c));
    if (!next_case(name_of(c))) break;
    expect_parity(c, f64_bound);
  }
}

TEST(Sequence, InvariantHasTheBitsOfOneRank) {
  for (const char* backend : {"ref", "host"})
    for (auto c : exact_cases(cases(world().size()), backend, DType::f32)) {
      c.exact_chunk = c.size / world().size() % 2 == 0 ? 2 : 1;
      SCOPED_TRACE(name_of(c));
      if (!next_case(name_of(c))) break;
      expect_parity(c, 0);
    }
}

// Several pieces of keys for each run of queries, also where a tile of them is 64: a number passes
// 2 layers of 4 products forward and back, whose roundings add up.
TEST(Sequence, PiecesOfKeysOnTheChosenBackend) {
  if (world().size() > 4) GTEST_SKIP() << "2 to 4 ranks are enough";
  for (const auto compute : {DType::f32, DType::bf16}) {
    ParityCase c;
    c.grid = {1, 1, world().size()};
    c.flavour = "one";
    c.size = 4;
    c.context = 64 * world().size();
    c.layers = 2;
    c.head_dim = 8;
    c.steps = 2;
    c.zero.stage = 3;
    c.compute = compute;
    c.reduce = DType::f32;
    c.backend = backend_or("fenced");
    SCOPED_TRACE(name_of(c) + " " + std::string(name_of(compute)));
    if (!next_case(name_of(c))) break;
    expect_parity(c, (compute == DType::f32 ? 0x1p-24 : 0x1p-9) * 2 * std::sqrt(2 * 2 * 4 * 24));
  }
}

// On the host, whose keys come in tiles of 64, too.
TEST(Sequence, ChunksOfWholeTilesHaveTheBitsOfOneRank) {
  if (world().size() != 2) GTEST_SKIP() << "once is enough";
  ParityCase c;
  c.grid = {1, 1, 2};
  c.size = 256;
  c.microbatches = 128;
  c.steps = 1;
  c.documents = true;
  c.flavour = "one";
  c = exact_cases({c}, "host", DType::f32)[0];
  c.exact_chunk = 32;
  if (!next_case(name_of(c))) return;
  expect_parity(c, 0);
}

}  // namespace
}  // namespace trireme::test
