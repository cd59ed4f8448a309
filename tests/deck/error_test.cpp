// Every kind of mistake in a deck: what is said, and the exact place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

struct Mistake {
  const char* name;
  const char* lines;  // after the least deck; the first is line 5
  const char* message;
};

class DeckMistake : public testing::TestWithParam<Mistake> {};

TEST_P(DeckMistake, IsNamedAtItsPlace) {
  EXPECT_EQ(refusal_of_addition(GetParam().lines), GetParam().message);
}

const Mistake mistakes[] = {
    {"UnknownKey", "[model]\n  layrs = 3\n",
     "d.toml:6:3: there is no key 'layrs' in [model]; did you mean 'layers'?"},
    {"SwappedLetters", "[optimizer]\nbteas = [1, 2]\n",
     "d.toml:6:1: there is no key 'bteas' in [optimizer]; did you mean 'betas'?"},
    {"KeyOfAnotherSection", "[model]\nlr = 1\n",
     "d.toml:6:1: there is no key 'lr' in [model]; it belongs to [optimizer]"},
    {"NothingLikeIt", "[evaluate]\nxyzzy = 1\n",
     "d.toml:6:1: there is no key 'xyzzy' in [evaluate]; keys: every_steps, batches, "
     "best_by, best_set, patience, ema, sample_prompt, sample_tokens, sample_every, "
     "sample_temperature"},
    {"UnknownSection", "[optimiser]\nlr = 1\n",
     "d.toml:5:1: there is no section [optimiser]; did you mean [optimizer]?"},
    {"NameOfAnotherProgram", "[evaluation]\nbatches = 3\n",
     "d.toml:5:1: there is no section [evaluation]; did you mean [evaluate]?"},
    {"RepeatedSection", "[validations]\nname = 'x'\n",
     "d.toml:5:1: there is no section [validations]; did you mean [[validation]]?"},
    {"SectionTwice", "[[model]]\nlayers = 1\n",
     "d.toml:5:1: section model must be written [model]"},
    {"Duplicate", "[model]\nlayers = 3\n  layers = 4\n",
     "d.toml:7:3: 'layers' is given a second time; keep one of the two"},
    {"SectionAgain", "[run]\n[train]\n",
     "d.toml:6:1: 'train' is given a second time; keep one of the two"},
    {"TextForNumber", "[model]\nlayers = 'x'\n",
     "d.toml:6:10: model.layers takes a whole number, not the text \"x\""},
    {"FractionForWhole", "[model]\nlayers = 2.5\n",
     "d.toml:6:10: model.layers takes a whole number, not the number 2.5"},
    {"NumberForFlag", "[model]\ntied = 1\n",
     "d.toml:6:8: model.tied takes true or false, not the whole number 1"},
    {"TableForText", "[model.norm]\nkind = 'rms'\n",
     "d.toml:5:1: model.norm takes a text, not a table"},
    {"DateForNumber", "[optimizer]\nlr = 2020-01-01\n",
     "d.toml:6:6: optimizer.lr takes a number, not a date"},
    {"WrongElement", "[optimizer]\nbetas = [0.9, 'x']\n",
     "d.toml:6:15: optimizer.betas takes an array of 2 numbers, not the text \"x\""},
    {"WrongCount", "[optimizer]\nbetas = [0.9]\n",
     "d.toml:6:9: optimizer.betas takes an array of 2 numbers, not 1 of them"},
    {"ElementOutOfRange", "[optimizer]\nbetas = [0.9, 1]\n",
     "d.toml:6:15: optimizer.betas = 1 is out of range: at least 0, below 1"},
    {"BelowRange", "[model]\nlayers = 0\n",
     "d.toml:6:10: model.layers = 0 is out of range: 1 to 10000"},
    {"NotANumber", "[optimizer]\nlr = nan\n",
     "d.toml:6:6: optimizer.lr = nan is out of range: 0 to 1000"},
    {"AboveTheLargest", "[run]\nlog_every = 9223372036854775807\n",
     "d.toml:6:13: run.log_every = 9223372036854775807 is out of range: at most "
     "9007199254740992"},
    {"JustAboveTheLargest", "[run]\nlog_every = 9007199254740993\n",
     "d.toml:6:13: run.log_every = 9007199254740993 is out of range: at most 9007199254740992"},
    {"AboveTheLargestAsAPower", "[run]\nlog_every = 1e18\n",
     "d.toml:6:13: run.log_every = 1000000000000000000 is out of range: at most "
     "9007199254740992"},
    {"AboveAnyInteger", "[run]\nlog_every = 1e30\n",
     "d.toml:6:13: run.log_every = 1e30 is out of range: at most 9007199254740992"},
    {"KeyOfAnotherOptimizer", "[optimizer]\nmatrix_momentum = 0.9\n",
     "d.toml:6:19: optimizer.matrix_momentum has no effect with optimizer.name = \"adamw\": remove "
     "optimizer.matrix_momentum, or choose another optimizer"},
    {"BesideAnotherOptimizer", "[optimizer]\nadamw_lr = 1e-3\n",
     "d.toml:6:12: optimizer.adamw_lr has no effect with optimizer.name = \"adamw\": remove "
     "optimizer.adamw_lr, or choose another optimizer"},
    {"NoMatrix", "[optimizer]\nname = 'muon'\nadamw_patterns = ['*.bias']\n",
     "d.toml:7:18: optimizer.adamw_patterns: the pattern \"*.bias\" matches no matrix that is "
     "trained; names look like \"blocks.0.qkv.weight\""},
    {"ModuleForMatrix", "[optimizer]\nname = 'muon'\nadamw_patterns = ['embedding']\n",
     "d.toml:7:18: optimizer.adamw_patterns: the pattern \"embedding\" matches no matrix that is "
     "trained; did you mean \"embedding.*\"?"},
    {"ModuleForParameter", "[optimizer]\nno_decay = ['*.qkv']\n",
     "d.toml:6:12: optimizer.no_decay: the pattern \"*.qkv\" matches no parameter; did you mean "
     "\"*.qkv.*\"?"},
    {"ZeroInSingle", "[optimizer]\neps = 1e-50\n",
     "d.toml:6:7: optimizer.eps = 1e-50 rounds to 0 in f32, the type it is used in: give 1.2e-38 "
     "or more"},
    {"FlushedInSingle", "[model]\nnorm_eps = 1e-38\n",
     "d.toml:6:12: model.norm_eps = 1e-38 rounds to 0 in f32, the type it is used in: give 1.2e-38 "
     "or more"},
    {"CapFlushedInSingle", "[model]\nlogit_softcap = 1e-40\n",
     "d.toml:6:17: model.logit_softcap = 1e-40 rounds to 0 in f32, the type it is used in: give "
     "1.2e-38 or more"},
    {"NoZeroButReadAsOne", "[optimizer]\nbetas = [0.9, 1e-400]\n",
     "d.toml:6:15: 1e-400 is too small for a double: write 0 or a larger number"},
    {"OneInSingle", "[model]\ndropout = 0.99999999\n",
     "d.toml:6:11: model.dropout = 0.99999999 rounds to 1 in f32, the type it is used in: give at "
     "most 0.9999999"},
    {"AutoOrRange", "[run]\nthreads = -1\n",
     "d.toml:6:11: run.threads = -1 is out of range: \"auto\" or 1 to 4096"},
    {"AutoOrNumber", "[run]\nthreads = 'all'\n",
     "d.toml:6:11: run.threads takes a whole number or \"auto\", not the text \"all\""},
    {"UnknownChoice", "[model]\nnorm = 'lyer'\n",
     "d.toml:6:8: model.norm = \"lyer\" is not known (did you mean \"layer\"?); it can be "
     "\"layer\" "
     "or \"rms\""},
    {"BadDuration", "[run]\ntime_limit = '1:99'\n",
     "d.toml:6:14: run.time_limit: '1:99' is not a duration; write hh:mm:ss, mm:ss, D-hh:mm:ss "
     "or a number of seconds"},
    {"ZeroByte", "[model]\ninit_from = \"a\\u0000b\"\n",
     "d.toml:6:13: model.init_from: the value must be UTF-8 text without zero bytes"},
};

INSTANTIATE_TEST_SUITE_P(All, DeckMistake, testing::ValuesIn(mistakes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace

TEST(DeckErrors, PatternsThatNameNothing) {
  EXPECT_EQ(
      refusal_of_addition("[[freeze]]\npattern = '*.bias'\n[[freeze]]\npattern = 'block.*'\n"),
      "d.toml:8:11: freeze.pattern: the pattern \"block.*\" matches no parameter; names look "
      "like \"blocks.0.qkv.weight\"");
}

TEST(DeckErrors, KeysOutsideOfSections) {
  EXPECT_EQ(refusal("lr = 1\n" + std::string(least_deck)),
            "d.toml:1:1: key 'lr' is not in any section; it belongs to [optimizer]");
  EXPECT_EQ(refusal("freeze = 1\n" + std::string(least_deck)),
            "d.toml:1:1: freeze is a section; write [[freeze]] above its keys");
}

TEST(DeckErrors, TextThatIsNotToml) {
  // The words are the library's.
  EXPECT_EQ(refusal_of_addition("[model]\nlayers 3\n").rfind("d.toml:6:8: ", 0), 0U);
  EXPECT_EQ(refusal_of_addition("[.]\n").rfind("d.toml:5:2: ", 0), 0U);
  EXPECT_EQ(refusal_of_addition("[model]\nnorm = 'rms\n").rfind("d.toml:6:", 0), 0U);
  EXPECT_EQ(refusal_of_addition("x = \"\xff\"\n").rfind("d.toml:5:", 0), 0U);
}

TEST(DeckErrors, EmptyPaths) {
  EXPECT_EQ(refusal("[train]\nsteps = 1\n[data]\npath = ['a', '']\n"),
            "d.toml:4:8: data.path contains an empty path; write the file's path, or [] for none");
}

TEST(DeckErrors, AreReportedTogetherInOrder) {
  EXPECT_EQ(
      refusal("[train]\nsteps = 'x'\n[model]\nheads = 5\ntide = true\n[data]\npath = 'x'\n",
              {"optimizer.lr=fast"}),
      "d.toml:2:9: train.steps takes a whole number, not the text \"x\"\n"
      "d.toml:4:9: model.heads = 5 does not divide model.width = 768; heads that do: 1, 2, 3, "
      "4, 6, 8, 12, 16; or give model.head_dim\n"
      "d.toml:5:1: there is no key 'tide' in [model]; did you mean 'tied'?\n"
      "override 'optimizer.lr=fast': optimizer.lr takes a number, not the text \"fast\"");
}

TEST(DeckErrors, AMistakeIsNotReportedTwice) {
  // heads is unknown here, so nothing is said about heads and width.
  EXPECT_EQ(refusal_of_addition("[model]\nhaeds = 4\nwidth = 100\n"),
            "d.toml:6:1: there is no key 'haeds' in [model]; did you mean 'heads'?");
}

TEST(DeckErrors, OfAModelThatIsNotKnownNothingElseIsSaid) {
  const auto text =
      refusal_of_addition("balance = 'sample'\n[model]\npreset = 'from:missing.checkpoint'\n");
  EXPECT_THAT(text, testing::StartsWith("d.toml:7:10: model.preset: "));
  EXPECT_THAT(text, testing::HasSubstr("missing.checkpoint"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("needs model.experts")));
}

TEST(DeckErrors, InvariantIsRefusedWhereItsBitsWouldDependOnTheGrid) {
  const auto refused = [](std::initializer_list<const char*> more, const char* what) {
    std::vector<std::string> all{"run.exactness=invariant"};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_THAT(refusal_of_overrides(all), testing::HasSubstr(what));
  };
  refused({"run.backend=cuda"},
          "run.exactness = \"invariant\" needs run.backend = \"host\" or \"ref\"");
  refused({"run.backend=ref", "precision.compute=f64"}, "does not support f64");
  refused({"run.exact_chunk=48", "model.context=64"},
          "run.exact_chunk = 48 does not divide the 64 tokens of a sample on each rank");
  refused({"run.exact_chunk=64", "model.context=64", "parallel.seq=2"}, "the 32 tokens");
  refused({"run.exact_chunk=32", "model.context=64", "model.chunk_tokens=48"},
          "model.chunk_tokens = 48 is not a multiple of run.exact_chunk = 32: set "
          "model.chunk_tokens to "
          "64 or another multiple, or remove it");
  refused({"data.validation=0.1", "model.context=64", "run.exact_chunk=64", "train.batch=16385",
           "train.microbatch=16385"},
          "evaluates at most 1048576 tokens per micro-batch on each rank, not 16385 samples of 64");
}

TEST(DeckErrors, OffloadingIsOfWhatRecomputeKeeps) {
  EXPECT_THAT(
      refusal_of_overrides({"model.offload=inputs"}),
      testing::HasSubstr("model.offload = \"inputs\" needs model.recompute = \"block\": set "
                         "that, or remove model.offload"));
  EXPECT_EQ(refusal_of_overrides({"model.offload=inputs", "model.recompute=block"}), "");
}

TEST(DeckErrors, NumbersThatSinglePrecisionDoesNotHold) {
  for (const auto* number :
       {"optimizer.lr=1e-45", "optimizer.betas=[0.9,0.99999999]", "optimizer.weight_decay=1e-300",
        "optimizer.clip=1e-39", "schedule.min_lr=1e-40"}) {
    EXPECT_THAT(refusal_of_overrides({number}), testing::HasSubstr(" in f32, the type ")) << number;
    EXPECT_EQ(refusal_of_overrides({number, "precision.compute=f64", "run.backend=ref"}), "");
  }
  EXPECT_EQ(refusal_of_overrides({"optimizer.eps=1.2e-38", "optimizer.betas=[0.9,0.9999999]"}), "");
  EXPECT_THAT(refusal_of_overrides({"optimizer.name=sgd", "optimizer.momentum=0.99999999"}),
              testing::HasSubstr("optimizer.momentum = 0.99999999 rounds to 1 in f32"));
}

TEST(DeckErrors, ARunOfMoreSamplesThanCanBeCounted) {
  EXPECT_THAT(refusal_of_overrides({"train.steps=9007199254740992", "train.batch=1e4"}),
              testing::HasSubstr("train.steps = 9007199254740992 with train.batch = 10000 means "
                                 "more than 2^62 samples"));
  EXPECT_EQ(refusal_of_overrides({"train.steps=9007199254740992"}), "");
}

}  // namespace trireme
