// Damaged decks either parse or are refused with an Error; what parses also dumps and reads back.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <random>

#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

// Bytes, runs and pieces of syntax put where they do not belong.
std::string damaged(std::string text, std::mt19937& random) {
  const std::vector<std::string> pieces = {
      "[",           "]",          "[[model]]",  "[freeze]",
      "\"",          "'''",        "=",          "\n",
      "#",           "${",         "}",          "\\u0000",
      "1e999",       "-0",         "nan",        "inf",
      "0x_",         "auto",       "\xff",       "\xef\xbb\xbf",
      "[[[[[[[[",    "{a={b={}}}", ".",          "9223372036854775808",
      "=[",          ",",          "1979-05-27", "true",
      "heads = 7\n", "\"auto\"",   "\0x"};
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::size_t edits = 1 + pick(4);
  for (std::size_t i = 0; i < edits; ++i) {
    const std::size_t at = pick(text.size() + 1);
    switch (pick(5)) {
      case 0:
        text.insert(at, pieces[pick(pieces.size())]);
        break;
      case 1:
        text.erase(at, 1 + pick(8));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(pick(256));
        break;
      case 3:
        text.insert(at, text.substr(pick(text.size() + 1), 1 + pick(40)));
        break;
      default:
        text.resize(at + 1, ' ');
    }
  }
  return text;
}

bool survives(std::string_view text, const std::vector<std::string>& overrides) {
  try {
    const Deck d = parse_deck(text, "f.toml", overrides);
    const Deck back = parse_deck(dump_deck(d), "f.toml");
    EXPECT_EQ(back, d) << text;
    return true;
  } catch (const Error& e) {
    EXPECT_FALSE(std::string(e.what()).empty());
    return false;
  }
}

constexpr std::string_view whole_deck = R"(# a deck with every kind of value
[model]
preset = "gpt2-124M"
layers = 2
width = 64
heads = 4
norm = "rms"
norm_eps = 1e-5
tied = true
[data]
path = ["a.tokens", 'b.tokens']
weights = [0.25, 0.75]
validation = 0.01
[train]
batch = 16
microbatch = "auto"
tokens = 1_000_000
[optimizer]
lr = 6e-4
betas = [0.9, 0.95]
no_decay = ["*.bias"]
[run]
time_limit = 0
threads = 2
)";

constexpr std::string_view mixture_deck = R"([model]
layers = 3
width = 64
heads = 4
context = 32
activation = "swiglu"
norm = "rms"
experts = 8
experts_per_token = 2
expert_width = 32
shared_expert_width = 16
shared_expert_gate = true
dense_layers = [0, 2]
router = "sigmoid"
norm_topk = false
[data]
path = "a.tokens"
[train]
batch = 16
steps = 10
balance = "bias"
balance_rate = 1e-2
router_z = 0.001
[parallel]
expert = 4
expert_tokens = 100
[zero]
stage = 3
shard = 2
)";

}  // namespace

TEST(Fuzz, DamagedDecks) {
  // Each round parses up to twice; the bound in time keeps sanitizer builds short.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::mt19937 random(20240607);
  const std::array sound{std::string(whole_deck), dump_deck(parsed(whole_deck)),
                         std::string(mixture_deck), dump_deck(parsed(mixture_deck))};
  int rounds = 0, parsed_rounds = 0;
  for (; rounds < 5000 && std::chrono::steady_clock::now() < end; ++rounds) {
    const bool dumped = rounds % 8 == 0, mixture = rounds % 3 == 0;
    const std::string text = damaged(sound[mixture ? 2 + dumped : dumped], random);
    parsed_rounds += survives(text, {}) ? 1 : 0;
  }
  EXPECT_GT(rounds, 100);
  EXPECT_GT(parsed_rounds, 0);       // damage in a comment or a value that stays legal
  EXPECT_LT(parsed_rounds, rounds);  // and most is refused
}

TEST(Fuzz, DamagedOverrides) {
  const std::vector<std::string> sound = {
      "train.batch=16",           "optimizer.betas=[0.9,0.99]", "data.path=[\"a\",'b']",
      "model.preset=llama-1B",    "data.validation=.1",         "run.time_limit=0:00:00",
      "optimizer.no_decay=[a,b]", "parallel.data=auto",         "model.tied=false",
      "model.dense_layers=[]",    "train.balance=none",         "parallel.expert_tokens=auto",
      "model.router=softmax",     "parallel.expert=1"};
  std::mt19937 random(20240608);
  int parsed_rounds = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string& one = sound[static_cast<std::size_t>(round) % sound.size()];
    parsed_rounds += survives(least_deck, {damaged(one, random)}) ? 1 : 0;
  }
  EXPECT_GT(parsed_rounds, 0);
}

}  // namespace trireme
