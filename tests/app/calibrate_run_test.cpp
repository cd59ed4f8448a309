// `calibrate`: links beside operations that were measured before, and what it refuses, on all
// ranks.
#include "kernels/open/open.hpp"
#include "lib/predict/machine_file.hpp"
#include "tests/app/training.hpp"
#include "tests/support/machine.hpp"

namespace trireme {
namespace {

class CalibrateRun : public testing::Test {
 protected:
  CalibrateRun() : before_(test::plain_machine("host")) {
    before_.name = machine_kind({.name = "host"}) + ", 1 rank of 1 thread";
    before_.source = "a test";
    write("before.toml", before_);
  }
  void write(const std::string& file, const MachineModel& m) {
    folder.write(file, machine_text(m));
  }
  test::Finished here(const std::string& command) {
    return test::run(folder.path(), "OMP_NUM_THREADS=1 " + command, 60);
  }
  void expect_refused(const std::string& command, const std::string& says) {
    const auto r = here(command);
    EXPECT_NE(r.code, 0) << command;
    EXPECT_NE(r.code, 124) << command << " hangs";
    EXPECT_NE(r.err.find(says), std::string::npos) << command << "\n" << r.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "new.toml")) << command;
  }
  MachineModel before_;
  ScratchFolder folder;
};

const std::string calibrate = "$TRIREME calibrate new.toml --backend host ";
const std::string known = "--operations-from before.toml ";

TEST_F(CalibrateRun, MeasuresLinksAloneBesideOperations) {
  const auto r = here("$MPIEXEC -n 2 " + calibrate + known);
  ASSERT_EQ(r.code, 0) << r.err;
  const auto after = load_machine(folder / "new.toml");
  ASSERT_EQ(after.products.size(), before_.products.size());
  EXPECT_EQ(after.products[0].flops, before_.products[0].flops);
  EXPECT_EQ(after.ranks_of_node, 2);
  EXPECT_NE(after.near.latency, before_.near.latency);
  EXPECT_GT(after.near.bandwidth.value_or(0), 0);
  EXPECT_GT(after.disk_write.value_or(0), 0);
  EXPECT_FALSE(after.far.bandwidth);  // there is one node
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_FALSE(entry.path().filename().string().find("trireme") != std::string::npos)
        << entry.path();
}

TEST_F(CalibrateRun, ReplacesAFileOnlyWhenAskedAndKeepsLinksAddedByHand) {
  before_.far = {.latency = 2e-6, .bandwidth = 5e9};
  write("new.toml", before_);
  const auto text = contents_of(folder / "new.toml");
  const auto refused = here(calibrate + known);
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("new.toml already exists"), std::string::npos) << refused.err;
  EXPECT_EQ(contents_of(folder / "new.toml"), text);
  const auto made = here(calibrate + known + "--overwrite");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(contents_of(folder / "new.toml"), text);
  EXPECT_EQ(load_machine(folder / "new.toml").far.bandwidth, 5e9);
}

TEST_F(CalibrateRun, TakesOperationsOfSuchRanksAlone) {
  write("gpu.toml", test::plain_machine("cuda"));
  expect_refused(calibrate + "--operations-from gpu.toml",
                 "was not measured with the backend and threads of these ranks");

  auto m = before_;
  m.name = "Another processor, 1 rank of 1 thread";
  write("other.toml", m);
  expect_refused(
      calibrate + "--operations-from other.toml",
      "measured on Another processor, 1 rank of 1 thread, according to its machine.name, but "
      "this machine is");

  m = before_;
  std::erase_if(m.products, [](const ProductRates& r) { return r.dtype == DType::f32; });
  write("half.toml", m);
  expect_refused(calibrate + "--operations-from half.toml", "for f32");
}

// MPICH can pretend that one machine is several nodes: of two ranks and of one.
TEST_F(CalibrateRun, NeedsAsManyRanksOnEachNode) {
  expect_refused(
      "MPIR_CVAR_NUM_CLIQUES=2 MPIR_CVAR_CLIQUES_BY_BLOCK=1 $MPIEXEC -n 3 " + calibrate + known,
      "nodes run between 1 and 2 ranks");
}

TEST_F(CalibrateRun, EndsOnAllRanksWhereOneCannotWrite) {
  std::filesystem::create_directories(folder / "trireme-calibrate-1/in the way");
  expect_refused("$MPIEXEC -n 2 " + calibrate + known,
                 "trireme-calibrate-1 exists: remove it first, or give another name: every rank");
}

TEST_F(CalibrateRun, NeedsTheSameArgumentsOnAllRanks) {
  for (const auto& other : {calibrate, calibrate + known + "--threads 2",
                            "$TRIREME calibrate other.toml --backend host " + known})
    expect_refused("$MPIEXEC -n 1 " + calibrate + known + ": -n 1 " + other,
                   "different arguments from rank 0");
}

TEST_F(CalibrateRun, AFolderThatIsNotThereIsSaidBeforeAnythingIsMeasured) {
  expect_refused("$TRIREME calibrate nowhere/new.toml", "the folder nowhere does not exist");
}

}  // namespace
}  // namespace trireme
