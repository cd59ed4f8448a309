// A checkpoint of format 1: AdamW's arrays under moment1 and moment2, their updates under
// `adam_counts`. A run of eight steps on two ranks wrote it after the fourth.
#include "tests/app/training.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {
namespace {

class Format1 : public Training {
 protected:
  Format1() {
    const auto archive = test::source_dir() / "tests/app/format1.tar.gz";
    EXPECT_EQ(here("tar xzf " + archive.string()).code, 0);
  }
  std::vector<double> all_losses(const std::string& run_dir) {
    std::vector<double> all;
    std::istringstream rows(losses(run_dir));
    std::string row, field;
    std::getline(rows, row);
    while (std::getline(rows, row)) {
      std::istringstream fields(row);
      for (int i = 0; i < 3; ++i) std::getline(fields, field, ',');
      all.push_back(std::stod(field));
    }
    return all;
  }
};

// Another CPU adds up in another order: eight steps apart are within 1e-4 of each other, moments
// that are lost or counted from 0 change the loss by more than 1e-3.
TEST_F(Format1, GoesOnAsIfItHadNeverStopped) {
  ASSERT_EQ(here("$TRIREME train d.toml --run-dir whole").code, 0);
  const auto whole = all_losses("whole");
  ASSERT_EQ(whole.size(), 8U);
  for (const char* grid : {"-n 1", "-n 2"}) {
    SCOPED_TRACE(grid);
    ASSERT_EQ(here("rm -rf again && cp -r old again").code, 0);

    const auto r =
        here(std::string("$MPIEXEC ") + grid +
             " $TRIREME train d.toml --run-dir again --restart latest run.exactness=repeatable");

    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err.find("another kind of machine"), std::string::npos) << r.err;
    const auto again = all_losses("again");
    ASSERT_EQ(again.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(again[i], whole[i], 1e-4) << i;
  }
}

// Its version drew the order of five samples in another way, and has trained 16 of them.
TEST_F(Format1, AnOrderOfFewThatIsAnotherNowIsWarnedOf) {
  folder.write("few", std::string(2 * 41, '\0'));
  ASSERT_EQ(here("$TRIREME tokenize few --from raw-u16 --vocab 11 --output few.tokens").code, 0);
  const std::string train = "$TRIREME train d.toml --run-dir old --restart latest ";
  const std::string warning = "some samples come again and others do not come";

  const auto first = here(train + "data.path=few.tokens");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find(warning), std::string::npos) << first.err;
  const auto next = here(train + "data.path=few.tokens train.steps=9");
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_EQ(next.err.find(warning), std::string::npos) << next.err;
}

TEST_F(Format1, IsInspectedUnderItsArraysNames) {
  const auto r = here("$TRIREME inspect old --verify");

  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* array : {"weights", "moment1", "moment2"})
    EXPECT_NE(r.out.find(array), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("every hash is right"), std::string::npos) << r.out;
}

}  // namespace
}  // namespace trireme
