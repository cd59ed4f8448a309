// A restart finds of the optimizer's state what the deck's [[freeze]] rules leave of it, wherever
// the checkpoint lies: the run goes on as if it had never stopped.
#include <fmt/format.h>

#include "tests/app/training.hpp"

namespace trireme {
namespace {

class FreezeRestart : public Training {
 protected:
  // Checkpoints after every second step; rules begin and end on them and between.
  FreezeRestart() {
    std::string deck = training_deck;
    deck.replace(deck.find("every_steps = 4"), 15, "every_steps = 2");
    folder.write("plain.toml", deck);
    deck += rule("blocks.0.*", 4, 8, "fresh") + rule("*norm*", 4, 8, "keep") +
            rule("*.qkv.*", 3, 7, "fresh") + rule("positions.*", 0, 6, "keep");
    folder.write("frozen.toml", deck);
  }
  static std::string rule(const std::string& pattern, int from, int to,
                          const std::string& moments) {
    return "[[freeze]]\npattern = \"" + pattern + "\"\nfrom_step = " + std::to_string(from) +
           "\nto_step = " + std::to_string(to) + "\nmoments = \"" + moments + "\"\n";
  }
  nlohmann::json counts(const std::string& run, const std::string& step) {
    return nlohmann::json::parse(
               contents_of(folder / (run + "/checkpoints/step-" + step + "/manifest.json")))
        .at("content")
        .at("checkpoint")
        .at("updates");
  }
  // `cut` holds the checkpoints of `run` up to this step.
  void cut_after(const std::string& run, int step) {
    std::string command = "rm -rf cut && cp -r " + run + " cut";
    for (int later = step + 2; later <= 12; later += 2)
      command += " && rm -rf cut/checkpoints/step-" + fmt::format("{:08}", later);
    ASSERT_EQ(here(command).code, 0);
  }
};

TEST_F(FreezeRestart, EqualsTheUninterruptedRunBeforeAtAndBehindEveryBorder) {
  ASSERT_EQ(here("$TRIREME train frozen.toml --run-dir whole").code, 0);
  for (int step = 2; step < 12; step += 2) {
    SCOPED_TRACE(step);
    cut_after("whole", step);

    const auto r = here("$TRIREME train frozen.toml --run-dir cut --restart latest");

    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find("(step " + std::to_string(step) + ")"), std::string::npos) << r.err;
    EXPECT_EQ(losses("cut"), losses("whole"));
    EXPECT_EQ(counts("cut", "00000012"), counts("whole", "00000012"));
    EXPECT_EQ(arrays("cut", "00000012"), arrays("whole", "00000012"));
  }
}

// Rules that the checkpoint's deck did not have: as if they had been there all the time, as far as
// they begin with the restart.
TEST_F(FreezeRestart, TakesUpRulesThatAreNew) {
  ASSERT_EQ(here("$TRIREME train plain.toml --run-dir plain").code, 0);
  std::string deck = contents_of(folder / "plain.toml");
  deck += rule("blocks.0.*", 4, 8, "fresh") + rule("*norm*", 4, 8, "keep");
  folder.write("later.toml", deck);
  ASSERT_EQ(here("$TRIREME train later.toml --run-dir whole").code, 0);
  cut_after("plain", 4);

  const auto r = here("$TRIREME train later.toml --run-dir cut --restart latest");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(losses("cut"), losses("whole"));
  EXPECT_EQ(counts("cut", "00000012"), counts("whole", "00000012"));
  EXPECT_EQ(counts("cut", "00000012").at("blocks.0.qkv.weight"), 4);
  EXPECT_EQ(arrays("cut", "00000012"), arrays("whole", "00000012"));
}

// Rules that the checkpoint's deck had and this one has not: what they froze lies beside what was
// trained all the time, with a count of updates of its own.
TEST_F(FreezeRestart, GoesOnWithoutRulesThatAreGone) {
  const auto plain = contents_of(folder / "plain.toml");
  for (const char* pattern : {"*norm*", "*.qkv.*"}) {
    SCOPED_TRACE(pattern);
    folder.write("ends.toml", plain + rule(pattern, 0, 4, "keep"));
    folder.write("lasts.toml", plain + rule(pattern, 0, 0, "keep"));
    ASSERT_EQ(here("$TRIREME train ends.toml --overwrite --run-dir whole").code, 0);
    ASSERT_EQ(here("$TRIREME train lasts.toml --overwrite --run-dir lasts").code, 0);
    cut_after("lasts", 4);

    const auto r = here("$TRIREME train plain.toml --run-dir cut --restart latest");

    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(losses("cut"), losses("whole"));
    EXPECT_EQ(counts("cut", "00000012"), counts("whole", "00000012"));
    EXPECT_EQ(arrays("cut", "00000012"), arrays("whole", "00000012"));
  }
}

// What freezing saves is saved after a restart, too.
TEST_F(FreezeRestart, TakesNoMemoryForMomentsThatAreDropped) {
  ASSERT_EQ(here("$TRIREME train plain.toml --run-dir plain").code, 0);
  const auto peak = [&](const std::string& run) {
    std::istringstream rows(contents_of(folder / (run + "/history.csv")));
    std::string row;
    for (std::string next; std::getline(rows, next);) row = next;
    return std::stoll(row.substr(row.rfind(',') + 1));
  };
  std::string deck = contents_of(folder / "plain.toml");
  folder.write("embedding.toml", deck + rule("embedding.*", 0, 0, "fresh"));
  ASSERT_EQ(here("$TRIREME train embedding.toml --run-dir frozen").code, 0);
  cut_after("plain", 4);

  const auto r = here("$TRIREME train embedding.toml --run-dir cut --restart latest");

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(peak("cut"), peak("frozen"));
  EXPECT_LT(peak("cut"), peak("plain"));
}

// The number of updates is counted, whatever the optimizer does with it.
TEST_F(FreezeRestart, SgdGoesOnCounting) {
  const std::string sgd = " optimizer.name=sgd optimizer.lr=0.1";
  ASSERT_EQ(here("$TRIREME train frozen.toml --run-dir whole" + sgd).code, 0);
  cut_after("whole", 4);

  const auto r = here("$TRIREME train frozen.toml --run-dir cut --restart latest" + sgd);

  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(losses("cut"), losses("whole"));
  EXPECT_EQ(counts("whole", "00000012").at("embedding.weight"), 12);
  EXPECT_EQ(counts("cut", "00000012"), counts("whole", "00000012"));
}

}  // namespace
}  // namespace trireme
