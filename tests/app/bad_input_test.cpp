// Whatever a user gets wrong: one clear message, a non-zero exit, earlier results intact.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/sealed.hpp"

namespace trireme {

using test::Finished;

static constexpr const char* deck = R"([model]
layers = 1
width = 16
heads = 2
context = 8
[data]
path = "text.tokens"
[train]
batch = 2
steps = 3
[checkpoint]
every_steps = 1
[run]
backend = "host"
threads = 1
)";

class BadInput : public testing::Test {
 protected:
  BadInput() {
    folder.write("text.txt", std::string(500, 'a') + std::string(500, 'b'));
    folder.write("deck.toml", deck);
    EXPECT_EQ(here("$TRIREME tokenize text.txt --output text.tokens").code, 0);
  }
  Finished here(const std::string& command) { return test::run(folder.path(), command); }
  // Fails, and says each of `words`.
  void expect_refused(const std::string& command, std::initializer_list<const char*> words) {
    const auto r = here(command);
    EXPECT_NE(r.code, 0) << command;
    EXPECT_LT(r.code, 124) << command << "\n" << r.err;  // neither a signal nor the time limit
    for (const char* word : words)
      EXPECT_NE(r.err.find(word), std::string::npos)
          << command << " does not say \"" << word << "\":\n"
          << r.err;
  }
  ScratchFolder folder;
};

TEST_F(BadInput, InTheDeck) {
  expect_refused("$TRIREME check deck.toml model.layres=2", {"model.layres", "model.layers"});
  expect_refused("$TRIREME check deck.toml model.layers=two", {"model.layers"});
  expect_refused("$TRIREME check deck.toml model.dropout=1.5", {"model.dropout"});
  expect_refused("$TRIREME check deck.toml model.heads=3", {"heads", "16"});
  expect_refused("$TRIREME check deck.toml layers", {"layers"});
  expect_refused("$TRIREME check deck.toml train.batch=3 train.microbatch=2", {"microbatch"});
  expect_refused("$TRIREME check missing.toml", {"missing.toml"});
  folder.write("twice.toml", std::string(deck) + "[model]\nlayers = 2\n");
  expect_refused("$TRIREME check twice.toml", {"twice.toml:16"});
  folder.write("typo.toml", std::string(deck) + "[optimizer]\nlearning_rate = 1\n");
  expect_refused("$TRIREME check typo.toml", {"typo.toml:17:1", "learning_rate"});
  // A key of the deck, in our words or another's, written as an option.
  expect_refused("$TRIREME check deck.toml --model.layers=2", {"hint: write model.layers=VALUE"});
  expect_refused("$TRIREME check deck.toml --learning-rate 1", {"learning_rate is optimizer.lr"});
  expect_refused("$TRIREME train deck.toml --lr=1", {"hint: write optimizer.lr=VALUE"});
}

TEST_F(BadInput, InTokenFiles) {
  expect_refused("$TRIREME train deck.toml data.path=none.tokens", {"none.tokens"});
  expect_refused("$TRIREME train deck.toml data.path=deck.toml", {"deck.toml"});
  expect_refused(
      "head -c 300 text.tokens >short.tokens; $TRIREME train deck.toml data.path=short.tokens",
      {"short.tokens"});
  for (const std::string command : {"train", "plan", "check"})
    expect_refused("$TRIREME " + command + " deck.toml model.vocab=100", {"vocab", "256"});
  expect_refused("$TRIREME train deck.toml model.context=4000", {"text.tokens"});
  // An id beyond what its own header promises is found when its window is read.
  expect_refused(
      "cp text.tokens hurt.tokens; $TRIREME check --verify deck.toml data.path=hurt.tokens && "
      "printf \"\\377\\377\" | dd of=hurt.tokens bs=1 conv=notrunc "
      "seek=$(($(stat -c %s hurt.tokens) - 600)) 2>/dev/null; "
      "$TRIREME check --verify deck.toml data.path=hurt.tokens",
      {"hurt.tokens"});
  expect_refused("$TRIREME train deck.toml data.path=hurt.tokens train.steps=70 --run-dir hurt",
                 {"hurt.tokens", "65535"});
  EXPECT_FALSE(std::filesystem::exists(folder / "hurt/checkpoints/step-00000070"));
}

TEST_F(BadInput, InRunDirectories) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);
  const auto before = contents_of(folder / "runs/deck/history.csv");
  const auto outcome = contents_of(folder / "runs/deck/outcome.json");
  const auto effective = contents_of(folder / "runs/deck/effective.toml");

  expect_refused("$TRIREME train deck.toml", {"--restart", "--overwrite"});
  expect_refused("$TRIREME train deck.toml --restart latest model.layers=2 train.steps=9",
                 {"blocks.1."});
  expect_refused(
      "mkdir other && echo mine >other/thesis.txt && $TRIREME train deck.toml --run-dir "
      "other/thesis.txt",
      {"thesis.txt"});
  expect_refused("$TRIREME train deck.toml --run-dir /proc/trireme", {"/proc/trireme"});

  EXPECT_EQ(contents_of(folder / "runs/deck/history.csv"), before);
  EXPECT_EQ(contents_of(folder / "runs/deck/outcome.json"), outcome);
  EXPECT_EQ(contents_of(folder / "runs/deck/effective.toml"), effective);
  EXPECT_EQ(contents_of(folder / "other/thesis.txt"), "mine\n");
}

TEST_F(BadInput, InCheckpoints) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);

  expect_refused(
      "$TRIREME train deck.toml --restart runs/deck/checkpoints/step-00000003 model.layers=2 "
      "train.steps=5 --run-dir wider",
      {"blocks.1."});
  expect_refused("$TRIREME train deck.toml --restart nowhere --run-dir lost", {"nowhere"});
  expect_refused(
      "cp -r runs/deck hurt && printf X | dd of=hurt/checkpoints/step-00000003/rank-00000.h5 bs=1 "
      "seek=5000 conv=notrunc 2>/dev/null; "
      "$TRIREME train deck.toml --restart hurt/checkpoints/step-00000003 train.steps=5 --run-dir "
      "more",
      {"rank-00000.h5"});
  expect_refused("$TRIREME generate nowhere --prompt a", {"nowhere"});
  expect_refused("$TRIREME evaluate runs/deck", {"--data"});
  EXPECT_EQ(here("$TRIREME inspect runs/deck --verify").code, 0);
}

// Manifests that are whole, and say what no program of ours writes: refused before anything of the
// size that they say is made.
TEST_F(BadInput, InManifests) {
  ASSERT_EQ(here("$TRIREME train deck.toml && mv runs/deck/checkpoints/step-00000003 c").code, 0);
  const auto manifest = nlohmann::json::parse(contents_of(folder / "c/manifest.json"));
  const auto with = [&](const std::string& line, const std::string& other) {
    auto content = manifest.at("content");
    for (auto& l : content.at("checkpoint").at("deck"))
      if (l.get<std::string>().starts_with(line)) l = other;
    folder.write("c/manifest.json", test::sealed(content));
  };
  with("preset = ", "preset = \"from:" + (folder / "c") + "\"");
  for (const char* command :
       {"evaluate c --data text.tokens", "generate c --prompt a", "export c hf", "compare c c",
        "check deck.toml 'model.preset=\"from:c\"'", "train deck.toml --restart c --run-dir more"})
    expect_refused(std::string("$TRIREME ") + command, {"does not refer to another one"});
  with("layers = ", "layers = 10000");
  expect_refused("$TRIREME evaluate c --data text.tokens", {"holds another model", "blocks.1."});
}

// Each would be waited for without end.
TEST_F(BadInput, PipesInThePlaceOfFiles) {
  ASSERT_EQ(here("$TRIREME train deck.toml && mkfifo pipe").code, 0);
  const std::string again = "rm -rf run; cp -r runs/deck run; ",
                    train = "$TRIREME train deck.toml --run-dir run ";

  expect_refused("timeout 20 $TRIREME train pipe", {"pipe", "regular file"});
  expect_refused("timeout 20 $TRIREME train deck.toml data.path=pipe", {"pipe", "regular file"});
  for (const std::string name : {"log", "history.csv", "outcome.json", "lock"})
    for (const char* how : {"--restart latest train.steps=4", "--overwrite", ""})
      expect_refused(
          again + "rm -f run/" + name + "; mkfifo run/" + name + "; timeout 20 " + train + how,
          {name.c_str(), "regular file"});
  const std::string last = again + "cd run/checkpoints/step-00000003; ";
  for (const std::string name : {"manifest.json", "rank-00000.h5"}) {
    expect_refused(last + "rm " + name + "; mkfifo " + name + "; timeout 20 $TRIREME inspect .",
                   {name.c_str()});
    const auto r = here("timeout 20 " + train + "--restart latest");
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find("skipped: "), std::string::npos) << r.err;
  }
}

TEST_F(BadInput, OutputThatDoesNotArrive) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);
  for (const std::string command :
       {"plan deck.toml", "plan deck.toml --json", "check deck.toml", "deck", "version",
        "inspect runs/deck", "evaluate runs/deck --data text.tokens",
        "generate runs/deck --prompt a --tokens 5",
        "tokenize text.txt --output again.tokens --overwrite"}) {
    expect_refused("$TRIREME " + command + " >/dev/full", {"No space left"});
    EXPECT_EQ(here("$TRIREME " + command + " >/dev/null").code, 0) << command;
  }
  EXPECT_EQ(here("$TRIREME --help >/dev/full").code, 1);
}

// Of another program, on a device of this machine, of a job that gave nobody a name.
TEST_F(BadInput, InNumbersAndPlaces) {
  ASSERT_EQ(here("$TRIREME train deck.toml").code, 0);
  const std::string generate = "$TRIREME generate runs/deck --prompt a --tokens 2 ";
  expect_refused(generate + "--temperature nan", {"temperature"});
  expect_refused(generate + "--top-p nan", {"top-p"});
  expect_refused(generate + "--threads -1", {"threads"});
  expect_refused(generate + "--threads 99999", {"threads"});
  expect_refused("$TRIREME generate runs/deck --prompt-file . --tokens 2", {"cannot read ."});
  expect_refused("$TRIREME evaluate runs/deck --data text.tokens --samples -3", {"samples"});
  folder.write("many.jsonl", R"({"prompt": "a", "tokens": 9223372036854775807})");
  expect_refused("$TRIREME generate runs/deck --prompts many.jsonl", {"many.jsonl:1", "tokens"});
  expect_refused("$TRIREME report .", {"no run directory"});
  // Its own option is wrong; no key of a deck is meant.
  EXPECT_EQ(here(generate + "--seed abc").err.find("hint"), std::string::npos);
  expect_refused("OMP_NUM_THREADS=99999 $TRIREME train deck.toml run.threads=auto --overwrite",
                 {"OMP_NUM_THREADS", "4096"});
  expect_refused("$TRIREME tokenize text.txt --threads 99999 --output more.tokens", {"threads"});
  expect_refused("$TRIREME tokenize text.txt --output /dev/null", {"/dev/null", "regular file"});
  EXPECT_EQ(here("test -c /dev/null").code, 0);
  expect_refused("ulimit -f 1; $TRIREME tokenize text.txt --output more.tokens",
                 {"more.tokens", "File too large"});
  EXPECT_EQ(here("ls more.tokens*").out, "");
  expect_refused("$TRIREME check deck.toml train.steps=9007199254740992", {"2^53"});
  expect_refused("$TRIREME train deck.toml --overwrite --time-limit abc", {"--time-limit", "abc"});
}

TEST_F(BadInput, AModelOfOneFormWhereAnotherIsAskedFor) {
  ASSERT_EQ(here("$TRIREME train deck.toml train.steps=1 --run-dir run").code, 0);
  ASSERT_EQ(here("$TRIREME export run hf").code, 0);
  expect_refused("$TRIREME import run new", {"Trireme's own", "model.init_from"});
  expect_refused("$TRIREME import run/checkpoints/step-00000001 new", {"Trireme's own"});
  expect_refused("$TRIREME export hf new", {"trireme import hf NEW"});
  expect_refused("$TRIREME generate nothing --prompt a", {"there is no nothing"});
  folder.write("chat.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})");
  expect_refused("$TRIREME tokenize chat.jsonl --chat --output new.tokens", {"--tokenizer"});
  folder.write("choice.jsonl", R"({"ctx": "a", "endings": ["b"], "label": 0})");
  expect_refused("$TRIREME evaluate run --multiple-choice choice.jsonl",
                 {"choice.jsonl:1", "at least two", R"("endings": [)"});
  for (const char* command : {"evaluate run --multiple-choice", "generate run --prompts"})
    expect_refused(std::string("$TRIREME ") + command + " choice.jsonl --output choice.jsonl",
                   {"choice.jsonl is the file that is read"});
  expect_refused("$TRIREME report run -o text.txt", {"text.txt", "no page of a report"});
}

// Its tokens mean other texts to the model; files of the model's own tokenizer are accepted.
TEST_F(BadInput, TokensOfAnotherTokenizer) {
  ASSERT_EQ(here("$TRIREME train deck.toml train.steps=1 --run-dir run && $TRIREME export run hf "
                 "&& mkdir other && "
                 "sed -E 's/\"a\": 97/\"a\": 98/; t; s/\"b\": 98/\"b\": 97/' hf/tokenizer.json "
                 ">other/tokenizer.json")
                .code,
            0);
  for (const std::string name : {"hf", "other"})
    ASSERT_EQ(here("$TRIREME tokenize text.txt --separator none --tokenizer " + name + " -o " +
                   name + ".tokens")
                  .code,
              0);
  const std::string check = "$TRIREME check deck.toml model.init_from=run data.path=";
  expect_refused(check + "other.tokens", {"tokenizer", "--tokenizer", "/run is a model of"});
  const auto r = here(check + "'[\"hf.tokens\", \"text.tokens\"]'");
  EXPECT_EQ(r.code, 0) << r.err;
  expect_refused(
      "$TRIREME train deck.toml train.steps=2 --run-dir run --restart latest "
      "data.path=other.tokens",
      {"tokenizer"});
}

TEST_F(BadInput, OnTheCommandLine) {
  expect_refused("$TRIREME", {"subcommand"});
  expect_refused("$TRIREME fly", {"fly"});
  expect_refused("$TRIREME generat run", {"did you mean trireme generate?"});
  EXPECT_EQ(here("$TRIREME plan deck.toml --device-memory 80").out, "");
  expect_refused("$TRIREME train", {"deck"});
  expect_refused("$TRIREME generate runs --tokens -5", {"tokens"});
  expect_refused("$TRIREME deck model.layer", {"model.layers"});
  // A misspelt option before the one that is missing for it; dashes of documents.
  expect_refused("$TRIREME tokenize text.txt --ouput more.tokens",
                 {"--ouput", "did you mean --output?"});
  expect_refused("$TRIREME generate runs \u2013-prompt a", {"\u2013-prompt", "type --prompt"});
  expect_refused("$TRIREME train deck.toml \u2014lr 3", {"\u2014lr", "type --lr"});
  expect_refused("$TRIREME tokenize text.txt -o more.tokens --tokenizer gpt2/none",
                 {"gpt2/none", "hf download gpt2/none"});
  // A text may begin so.
  EXPECT_EQ(here("$TRIREME generate none --prompt '\u2014tokens' 2>&1").out.find("typographic"),
            std::string::npos);
  // A name may hold what a terminal obeys.
  expect_refused("$TRIREME check \"$(printf 'a\\033[2Jb\\nc')\"", {"a\\x1b[2Jb\n  c"});
  expect_refused("PMI_SIZE=4 $TRIREME train deck.toml", {"4"});
}

}  // namespace trireme
