#include "lib/deck/deck.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/deck/sample.hpp"

namespace trireme {

TEST(Deck, TakesEveryKindOfValue) {
  const Deck d = parsed(R"([model]
layers = 2
width = 96
heads = 6
norm = "rms"
rope_theta = 1e4
tied = false
[data]
path = ["a.tokens", "/b/../c.tokens"]
weights = [1, 0.5]
validation = 0.25
[train]
batch = 1e2
tokens = 10_000
[optimizer]
name = "sgd"
betas = [0.8, 0.9]
no_decay = ["*.bias"]
[precision]
compute = "bf16"
)");
  EXPECT_EQ(d.name, "d");
  EXPECT_EQ(d.model.layers, 2);
  EXPECT_EQ(d.model.norm, NormKind::rms);
  EXPECT_FALSE(d.model.tied);
  EXPECT_EQ(d.data.path[0], std::filesystem::current_path() / "a.tokens");
  EXPECT_EQ(d.data.path[1], "/c.tokens");
  EXPECT_EQ(d.data.weights, (std::vector{1.0, 0.5}));
  EXPECT_EQ(d.data.validation_fraction, 0.25);
  EXPECT_EQ(d.train.batch, 100);
  EXPECT_EQ(d.train.tokens, 10000);
  EXPECT_EQ(d.optimizer.name, OptimizerKind::sgd);
  EXPECT_EQ(d.optimizer.beta1, 0.8);
  EXPECT_EQ(d.optimizer.beta2, 0.9);
  EXPECT_EQ(d.optimizer.no_decay, std::vector<std::string>{"*.bias"});
  EXPECT_EQ(d.precision.compute, DType::bf16);
  EXPECT_EQ(d.precision.reduce, DType::f32);
}

TEST(Deck, DecidesWhatIsLeftOut) {
  const Deck gpt = parsed(least_deck);
  EXPECT_EQ(gpt.model.kv_heads, 12);
  EXPECT_EQ(gpt.model.ffn_width, 3072);
  EXPECT_EQ(gpt.model.vocab, 0);

  const Deck llama = overridden({"model.activation=swiglu", "model.width=96", "model.heads=4"});
  EXPECT_EQ(llama.model.ffn_width, 256);
  EXPECT_EQ(overridden({"run.backend=ref", "precision.compute=f64"}).precision.reduce, DType::f64);
}

TEST(Deck, PresetIsAStartThatKeysChange) {
  const Deck d =
      parsed("[model]\nlayers = 3\npreset = 'llama-70B'\n[data]\npath = 'x'\n[train]\nsteps = 1\n");
  EXPECT_EQ(d.model.layers, 3);
  EXPECT_EQ(d.model.width, 8192);
  EXPECT_EQ(d.model.kv_heads, 8);
  EXPECT_EQ(d.model.ffn_width, 28672);
  EXPECT_EQ(d.model.norm, NormKind::rms);
  EXPECT_EQ(d.model.positions, Positions::rotary);
  EXPECT_EQ(overridden({"model.preset=gpt2-1558M"}).model.ffn_width, 6400);
}

TEST(Deck, LengthInTokensIsRoundedUpToSteps) {
  const Deck d =
      parsed("[model]\ncontext = 100\n[data]\npath = 'x'\n[train]\nbatch = 4\ntokens = 1001\n");
  EXPECT_EQ(total_steps(d.train, d.model.context), 3);
}

TEST(Deck, ExpandsTheEnvironment) {
  ASSERT_EQ(setenv("TRIREME_TEST_PLACE", "/there", 1), 0);
  ASSERT_EQ(unsetenv("TRIREME_TEST_NOWHERE"), 0);
  const Deck d = parsed(
      "[data]\npath = ['${TRIREME_TEST_PLACE}/a', '/$${literal}', '/$x']\n[train]\nsteps = 1\n");
  EXPECT_EQ(d.data.path, (std::vector<std::string>{"/there/a", "/${literal}", "/$x"}));
  EXPECT_EQ(parsed(dump_deck(d)), d);

  EXPECT_EQ(refusal("[data]\npath = ['a',\n  '${TRIREME_TEST_NOWHERE}/x']\n[train]\nsteps = 1\n"),
            "d.toml:3:3: data.path: environment variable TRIREME_TEST_NOWHERE is not set; export "
            "it or write its value");
  EXPECT_NE(refusal_of_overrides({"data.path=${TRIREME_TEST_PLACE"}).find("no closing brace"),
            std::string::npos);
}

TEST(Deck, DumpReadsBackEqual) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"model.preset=llama-1B", "optimizer.lr=6e-4", "data.path=[\"a b\",'c\"d']"},
      {"train.tokens=3e9", "train.microbatch=4", "data.weights=[0.1]", "data.validation=v.tokens"},
      {"data.validation=1e-3", "optimizer.no_decay=[blocks.*,?ositions*]", "run.threads=3"},
      {"model.vocab=50304", "model.norm_eps=1e-6", "parallel.data=1", "checkpoint.keep_last=0"},
      {"optimizer.lr=0.1234567890123456789", "schedule.min_lr=4.9e-324", "train.seed=12345678901"},
  };
  for (const auto& overrides : cases) {
    const Deck d = overridden(overrides);
    EXPECT_EQ(parsed(dump_deck(d)), d) << dump_deck(d);
  }
}

TEST(Deck, DumpHoldsEveryKeyAsPeopleWriteIt) {
  const std::string text = dump_deck(overridden({"optimizer.lr=6e-4", "model.dropout=.1"}));
  EXPECT_NE(text.find("\nlr = 6e-4 "), std::string::npos) << text;
  EXPECT_NE(text.find("\ndropout = 0.1 "), std::string::npos);
  EXPECT_NE(text.find("\neps = 1e-8 "), std::string::npos);
  EXPECT_NE(text.find("\nbetas = [0.9, 0.95] "), std::string::npos);
  EXPECT_NE(text.find("\nkv_heads = 12 "), std::string::npos);
  EXPECT_NE(text.find("\nvocab = \"auto\" "), std::string::npos);
  EXPECT_NE(text.find("\n# tokens = 1e9 "), std::string::npos);
  EXPECT_NE(text.find("# length of a sample [tokens]"), std::string::npos);
  EXPECT_LT(text.find("[model]"), text.find("[data]"));
}

TEST(Deck, TemplateIsACompleteDeck) {
  Deck d = parsed(deck_template());
  EXPECT_EQ(d.train.steps, 1000);
  d.train.steps = 10;
  d.data.path = parsed(least_deck).data.path;
  EXPECT_EQ(d, parsed(least_deck));
}

TEST(Deck, DifferencesNameKeyAndBothValues) {
  const Deck a = overridden({});
  const Deck b = overridden({"train.batch=16", "optimizer.betas=[0.9,0.99]"});
  EXPECT_TRUE(deck_differences(a, a).empty());
  EXPECT_EQ(deck_differences(a, b),
            (std::vector<std::string>{"train.batch: 8 -> 16",
                                      "optimizer.betas: [0.9, 0.95] -> [0.9, 0.99]"}));
}

TEST(Deck, FitsItselfToItsRanks) {
  const Deck d = fit_to_ranks(overridden({"train.batch=12"}), 1);
  EXPECT_EQ(d.parallel.data, 1);
  EXPECT_EQ(d.train.microbatch, 12);
  EXPECT_EQ(parsed(dump_deck(d)), d);
  EXPECT_EQ(overridden({"parallel.data=1"}).train.microbatch, 8);

  try {
    fit_to_ranks(overridden({"parallel.data=1"}), 2);
    FAIL() << "a grid of one rank filled two";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "a grid of pipe 1 x data 1 x seq 1 does not fill 2 ranks; pipe x data x seq that "
                 "does: 1 x 2 x 1, 1 x 1 x 2, 2 x 1 x 1");
  }
}

TEST(Deck, LoadsFilesAndNamesThem) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "trireme_deck_test_files";
  std::filesystem::create_directories(folder);
  const auto file = folder / "mine.toml";
  std::ofstream(file) << "[data]\npath = 'x'\n[train]\nstep = 1\n";
  try {
    load_deck(file);
    FAIL() << "an unknown key was taken";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).rfind(file.string() + ":4:1: there is no key 'step'", 0), 0U)
        << e.what();
  }
  std::ofstream(file) << least_deck;
  EXPECT_EQ(load_deck(file, std::vector<std::string>{"train.steps=3"}).train.steps, 3);
  EXPECT_EQ(load_deck(file).name, "mine");
  EXPECT_THROW(load_deck(folder), Error);
  EXPECT_THROW(load_deck(folder / "absent.toml"), Error);
  std::filesystem::remove_all(folder);
}

TEST(Quantity, BytesAndDurations) {
  EXPECT_EQ(parse_byte_count("80G"), 80LL << 30);
  EXPECT_EQ(parse_byte_count("1.5K"), 1536);
  EXPECT_EQ(parse_byte_count("1_000"), 1000);
  for (const auto* wrong : {"", "G", "-1", "80GB", "1e300", "1.5", "x"}) {
    EXPECT_THROW(parse_byte_count(wrong), Error) << wrong;
  }
  EXPECT_EQ(parse_duration("01:30:05"), 5405);
  EXPECT_EQ(parse_duration("2:30"), 150);
  EXPECT_EQ(parse_duration("2.5"), 2.5);
  for (const auto* wrong : {"", "1:", "1:60", "1:2:3:4", "-1", "nan", "inf", "x"}) {
    EXPECT_THROW(parse_duration(wrong), Error) << wrong;
  }
}

}  // namespace trireme
