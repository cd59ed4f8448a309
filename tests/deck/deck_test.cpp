#include "lib/deck/deck.hpp"
#include "lib/keys/quantity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/deck/resolve.hpp"
#include "lib/model/spec.hpp"
#include "lib/train/batch_ramp.hpp"
#include "lib/train/work.hpp"
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

// As checkpoints hold them.
TEST(Deck, DumpsFromBeforeAKeyWasThereMeanTheSame) {
  for (const char* preset : {"gpt2-124M", "llama-1B"}) {
    const Deck d = overridden({std::string("model.preset=") + preset});
    std::string old;
    std::istringstream lines(dump_deck(d));
    std::size_t left_out = 0;
    for (std::string line; std::getline(lines, line);) {
      bool is_new = false;
      for (const char* key : {"head_dim",
                              "qkv_bias",
                              "qk_norm",
                              "qk_norm_over",
                              "norm_place",
                              "attention_scale",
                              "attention_softcap",
                              "logit_softcap",
                              "residual_scale",
                              "logit_scale",
                              "embedding_scale",
                              "nope_layers",
                              "rotary_dim",
                              "window_rope_theta",
                              "scale_embedding",
                              "experts",
                              "experts_per_token",
                              "expert_width",
                              "shared_expert_width",
                              "shared_expert_gate",
                              "expert_bias",
                              "router",
                              "norm_topk",
                              "dense_layers",
                              "window",
                              "window_layers",
                              "attention_sinks",
                              "rope_scaling",
                              "rope_factor",
                              "rope_low_freq_factor",
                              "rope_high_freq_factor",
                              "rope_original_context",
                              "rope_beta_fast",
                              "rope_beta_slow",
                              "rope_truncate",
                              "rope_attention_factor",
                              "ema"})
        is_new = is_new || line.starts_with(std::string(key) + " = ");
      left_out += is_new;
      if (!is_new) old += line + "\n";
    }
    EXPECT_EQ(left_out, 38U);
    EXPECT_EQ(parse_deck(old, "d.toml"), d);
  }
}

TEST(Deck, LengthInTokensIsRoundedUpToSteps) {
  const Deck d =
      parsed("[model]\ncontext = 100\n[data]\npath = 'x'\n[train]\nbatch = 4\ntokens = 1001\n");
  EXPECT_EQ(total_steps(d.train, d.data.context), 3);
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
      {"zero.stage=2", "zero.shard=node"},
      {"optimizer.lr=0.1234567890123456789", "checkpoint.every_minutes=4.9e-324",
       "train.seed=12345678901"},
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
  EXPECT_NE(text.find("# Number of tokens per training sample (sequence length) [tokens]"),
            std::string::npos);
  EXPECT_LT(text.find("[model]"), text.find("[data]"));
}

TEST(Deck, TemplateIsACompleteDeck) {
  Deck d = parsed(deck_template());
  EXPECT_EQ(d.train.steps, 1000);
  d.train.steps = 10;
  d.data.path = parsed(least_deck).data.path;
  EXPECT_EQ(d, parsed(least_deck));
}

// Lines of the template that are comments, without the mark and without repeated sections.
static std::string with_defaults_set(const std::string& text) {
  std::istringstream lines(text);
  std::string all, line;
  for (bool repeated = false; std::getline(lines, line);) {
    if (line.starts_with("[")) repeated = false;
    if (line.starts_with("# [[")) repeated = true;
    const bool is_key = line.starts_with("# ") && line.find(" = ") != std::string::npos &&
                        line.find("  # ") != std::string::npos;
    const bool is_default =
        is_key && !repeated && line.find("# (an example; ") == std::string::npos;
    all += (is_default ? line.substr(2) : line) + "\n";
  }
  return all;
}

TEST(Deck, TemplateTellsExamplesFromDefaults) {
  const auto text = deck_template();
  EXPECT_LT(with_defaults_set(text).size(), text.size() - 200);  // most lines lost their mark
  EXPECT_EQ(parsed(with_defaults_set(text)), parsed(text));
  const auto line_of = [&](const std::string& begin) {
    const auto at = text.find("\n" + begin);
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at + 1) - at);
  };
  for (const auto* begin : {"# warmup_tokens = 1e8 ", "# epochs = 3 ", "# from_tokens = 20e9 "})
    EXPECT_NE(line_of(begin).find("# (an example; not given by default) "), std::string::npos)
        << begin;
  EXPECT_NE(line_of("# validation = 0.01 ").find("# (an example; the default is []) "),
            std::string::npos);
  EXPECT_NE(line_of("steps = 1000 ").find("# (required; the value is an example) "),
            std::string::npos);
  EXPECT_EQ(line_of("# log_every = 1 ").find("example"), std::string::npos);
}

TEST(Deck, DifferencesNameKeyAndBothValues) {
  const Deck a = overridden({});
  const Deck b = overridden({"train.batch=16", "optimizer.betas=[0.9,0.99]"});
  EXPECT_TRUE(deck_differences(a, a).empty());
  EXPECT_EQ(deck_differences(a, b),
            (std::vector<std::string>{"train.batch: 8 -> 16",
                                      "optimizer.betas: [0.9, 0.95] -> [0.9, 0.99]"}));
  Deck frozen = a;
  frozen.freeze = {{.pattern = "blocks.*"}};
  EXPECT_EQ(deck_differences(a, frozen).at(0), "freeze.pattern: absent -> \"blocks.*\"");
}

// A changed key says which entry it belongs to, and the other entries keep their places.
TEST(Deck, DifferencesNameTheEntryOfARepeatedSection) {
  const auto with = [](const std::string& more) { return parsed(std::string(least_deck) + more); };
  const std::string code = "[[validation]]\nname = 'code'\npath = 'c.tokens'\n",
                    text = "[[validation]]\nname = 'text'\npath = 't.tokens'\n";
  EXPECT_EQ(deck_differences(with(code + text), with(code + text + "weight = 2\n")),
            (std::vector<std::string>{"validation.weight (name = \"text\"): 0 -> 2"}));
  const auto added = deck_differences(with(text), with(code + text));
  ASSERT_EQ(added.size(), 3U);
  EXPECT_EQ(added[0], "validation.name: absent -> \"code\"");
  EXPECT_EQ(added[1].rfind("validation.path (name = \"code\"): absent -> ", 0), 0U) << added[1];
  const auto removed = deck_differences(with(code + text), with(text));
  ASSERT_EQ(removed.size(), 3U);
  EXPECT_EQ(removed[0], "validation.name: \"code\" -> absent");
  EXPECT_EQ(removed[2], "validation.weight (name = \"code\"): 0 -> absent");
  // The order of entries is a difference, too.
  EXPECT_FALSE(deck_differences(with(code + text), with(text + code)).empty());

  const auto phases = [&](const std::string& from, const std::string& weights) {
    auto deck = with("");
    deck.data.phases.resize(2);
    deck.data.phases[0] = {50, 0, {}, {1}};
    deck.data.phases[1] = {std::stoll(from), 0, {}, {std::stod(weights)}};
    return deck;
  };
  EXPECT_EQ(deck_differences(phases("100", "1"), phases("100", "3")),
            (std::vector<std::string>{"phase.weights (from_step = 100): [1] -> [3]"}));
  EXPECT_EQ(deck_differences(phases("100", "1"), phases("200", "3")),
            (std::vector<std::string>{"phase.from_step: 100 -> 200",
                                      "phase.weights (from_step = 200): [1] -> [3]"}));
  auto in_tokens = phases("100", "1");
  in_tokens.data.phases.back().from_step = 0;
  in_tokens.data.phases.back().from_tokens = 5000;
  EXPECT_EQ(deck_differences(phases("100", "1"), in_tokens),
            (std::vector<std::string>{"phase.from_step (from_tokens = 5000): 100 -> absent",
                                      "phase.from_tokens: absent -> 5000"}));
  EXPECT_EQ(deck_differences(in_tokens, with("")).size(), 6U);
}

// Three samples of a data rank are no groups of two, whatever microbatch is chosen.
TEST(Resolve, AChosenMicrobatchHasToSuitTheSchedule) {
  const auto said = message_of([] {
    resolve(overridden({"train.batch=6", "parallel.pipe=2", "parallel.schedule=interleaved",
                        "parallel.chunks=2", "model.layers=4"}),
            {.ranks = 4, .vocab = 1});
  });
  EXPECT_TRUE(said.starts_with("on 4 ranks: ")) << said;
}

TEST(Resolve, FitsADeckToItsRanks) {
  const Deck d = resolve(overridden({"train.batch=12"}), {.vocab = 1});
  EXPECT_EQ(d.parallel.data, 1);
  EXPECT_EQ(d.train.microbatch, 12);
  EXPECT_EQ(parsed(dump_deck(d)), d);
  EXPECT_EQ(overridden({"parallel.data=1"}).train.microbatch, 8);

  EXPECT_EQ(
      message_of([] { resolve(overridden({"parallel.data=1"}), {.ranks = 2, .vocab = 1}); }),
      "a grid of pipe 1 x data 1 x seq 1 does not fill 2 ranks: start 1 rank (mpiexec -n 1; for "
      "check and plan: --ranks 1). Grids of 2 ranks (pipe x data x seq): 1 x 2 x 1, 1 x 1 x 2, "
      "2 x 1 x 1");
}

TEST(Deck, ATrainerIsSetUpAsItSays) {
  Deck d =
      overridden({"train.seed=7", "zero.stage=3", "parallel.pipe=2", "parallel.stage_layers=[5,7]",
                  "parallel.schedule=zero-bubble", "optimizer.lr=2e-4", "data.attention=document",
                  "run.replay_every=3", "run.exactness=invariant", "run.exact_chunk=32"});
  d.freeze = {{.pattern = "blocks.0.*"}};
  d.precision.reduce = DType::f32;
  const auto s =
      plan_input_of(d, DType::bf16, TransportKind::host, {}, DocumentWeights::absent).setup;
  EXPECT_EQ(s.seed, 7U);
  EXPECT_EQ(s.model, d.model);
  EXPECT_EQ(s.zero, d.zero);
  EXPECT_EQ(s.optimizer, d.optimizer);
  EXPECT_EQ(s.freeze, d.freeze);
  EXPECT_EQ(s.stage_layers, d.parallel.stage_layers);
  EXPECT_EQ(s.schedule, ScheduleKind::zero_bubble);
  EXPECT_EQ(s.compute, DType::bf16);
  EXPECT_EQ(s.reduce, DType::f32);
  EXPECT_EQ(s.attention, AttentionSpan::document);
  EXPECT_EQ(s.exact_chunk, 32);
  EXPECT_TRUE(s.check_memory);
}

// Of a rank's tokens of a sample; a multiple of what is summed as one.
TEST(Deck, ChunksOfTokensAreAutomatic) {
  const auto chosen = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"model.context=16384", "model.heads=12"});
    return plan_input_of(resolve(overridden(overrides), {.ranks = 2, .vocab = 1}), DType::f32,
                         TransportKind::host, {}, DocumentWeights::absent)
        .setup.chunk_tokens;
  };
  EXPECT_EQ(chosen({}), 4096);
  EXPECT_EQ(chosen({"parallel.seq=2"}), 0);
  EXPECT_EQ(chosen({"parallel.seq=2", "model.context=16386"}), 4096);
  EXPECT_EQ(chosen({"model.chunk_tokens=0"}), 0);
  EXPECT_EQ(chosen({"model.chunk_tokens=100"}), 100);
  EXPECT_EQ(chosen({"model.chunk_tokens=auto"}), 4096);
  EXPECT_EQ(chosen({"model.context=20000", "run.exactness=invariant", "run.exact_chunk=125"}),
            4125);
}

TEST(Deck, LoadsFilesAndNamesThem) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "trireme_deck_test_files";
  std::filesystem::create_directories(folder);
  const auto file = folder / "mine.toml";
  std::ofstream(file) << "[data]\npath = 'x'\n[train]\nstep = 1\n";
  const auto said = message_of([&] { load_deck(file); });
  EXPECT_TRUE(said.starts_with(file.string() + ":4:1: there is no key 'step'")) << said;
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
  EXPECT_EQ(parse_byte_count("1_000_000_000"), 1'000'000'000);
  EXPECT_EQ(parse_byte_count("2e9"), 2'000'000'000);
  EXPECT_EQ(parse_byte_count("40GB"), 40'000'000'000);
  EXPECT_EQ(parse_byte_count("1.5 tb"), 1'500'000'000'000);
  for (const auto* same : {"80GiB", "80Gi", "80g", "80 G", "0.078125T", "81920MiB"}) {
    EXPECT_EQ(parse_byte_count(same), 80LL << 30) << same;
  }
  EXPECT_EQ(parse_byte_count("512MiB"), 512LL << 20);
  EXPECT_EQ(parse_byte_count("80B"), 80);
  EXPECT_EQ(parse_byte_count("0"), 0);
  for (const auto* wrong :
       {"", "G", "-1", "-1G", "80GX", "80iB", "1e300", "1.5", "1.5B", "x", "nanG"}) {
    EXPECT_THROW(parse_byte_count(wrong), Error) << wrong;
  }
  for (const auto* bare : {"80", "1_000", "64e3"}) {
    const auto said = message_of([&] { parse_byte_count(bare); });
    EXPECT_NE(said.find(fmt::format("{0} has no unit: write {0}B for bytes, {0}M or {0}G", bare)),
              std::string::npos)
        << said;
  }
  EXPECT_EQ(parse_duration("01:30:05"), 5405);
  EXPECT_EQ(parse_duration("2:30"), 150);
  EXPECT_EQ(parse_duration("2.5"), 2.5);
  EXPECT_EQ(parse_duration("2-01:30:05"), 2 * 86400 + 5405);
  EXPECT_EQ(parse_duration("1-12:30"), 86400 + 12 * 3600 + 30 * 60);
  EXPECT_EQ(parse_duration("0-6"), 6 * 3600);
  for (const auto* wrong : {"", "1:", "1:60", "1:2:3:4", "-1", "nan", "inf", "x"}) {
    EXPECT_THROW(parse_duration(wrong), Error) << wrong;
  }
}

}  // namespace trireme
