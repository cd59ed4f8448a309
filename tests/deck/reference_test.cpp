// What is generated from the table, and the table's own promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "lib/base/posix_file.hpp"
#include "lib/deck/table.hpp"
#include "tests/deck/sample.hpp"
#include "tests/support/source_dir.hpp"

namespace trireme {

TEST(Reference, DocsAreInStepWithTheTable) {
  const auto file = test::source_dir() / "docs/deck.md";
  const std::string wanted = deck_reference_markdown();
  if (std::getenv("TRIREME_RENEW_DOCS")) std::ofstream(file) << wanted;

  std::ifstream in(file);
  const std::string found{std::istreambuf_iterator<char>(in), {}};
  EXPECT_TRUE(found == wanted)
      << "docs/deck.md is not what lib/deck's table says; renew it with\n"
         "  TRIREME_RENEW_DOCS=1 build/tests/deck_test --gtest_filter='Reference.*'";
}

TEST(Reference, EveryKeyIsDescribed) {
  for (const auto& path : deck_key_paths()) {
    const std::string text = describe_key(path);
    const Key* key = find_key(path);
    ASSERT_NE(key, nullptr);
    EXPECT_NE(text.find(path), std::string::npos);
    EXPECT_FALSE(key->meaning.empty()) << path;
    EXPECT_EQ(key->meaning.find('\n'), std::string::npos) << path;
  }
  EXPECT_NE(describe_key("lr").find("optimizer.lr"), std::string::npos);
  const std::string both = describe_key("every_steps");
  EXPECT_NE(both.find("evaluate.every_steps"), std::string::npos);
  EXPECT_NE(both.find("checkpoint.every_steps"), std::string::npos);
  EXPECT_NE(describe_key("zero").find("zero.detect_freeze"), std::string::npos);
  EXPECT_EQ(message_of([] { describe_key("model.layer"); }),
            "there is no deck key or section 'model.layer'; did you mean 'model.layers'?");
}

TEST(Reference, DefaultsAreAccepted) {
  for (const auto& section : deck_sections()) {
    for (const auto& key : section.keys) {
      for (const std::string& text : {default_text(key), key.example}) {
        if (text.empty()) continue;
        EXPECT_NO_THROW(accepted(key, raw_from_text(key, text))) << key.path() << " = " << text;
      }
    }
  }
}

// A value of the key that the deck does not have.
static KeyValue other_value(const Key& key, const Deck& deck) {
  switch (key.kind) {
    case ValueKind::flag:
      return !std::get<bool>(key.access.get(deck, 0));
    case ValueKind::integer:
      return std::int64_t{4321};
    case ValueKind::real:
    case ValueKind::duration:
      return 0.4321;
    case ValueKind::text:
    case ValueKind::path:
      return std::string("other");
    case ValueKind::choice: {
      const bool has_last = key.access.get(deck, 0) == KeyValue(key.choices.back());
      return has_last ? key.choices.front() : key.choices.back();
    }
    case ValueKind::integers:
      return std::vector<std::int64_t>{4, 3};
    case ValueKind::reals:
      return std::vector<double>{0.4, 0.3};
    default:
      return std::vector<std::string>{"other"};
  }
}

// Each key reads back what was written through its accessor and moves nothing else.
TEST(Reference, AccessorsReachTheirOwnMember) {
  for (const auto& section : deck_sections()) {
    if (section.repeated) continue;
    for (const auto& key : section.keys) {
      const Deck before;
      Deck after = before;
      const auto other = other_value(key, before);
      key.access.set(after, 0, other);
      EXPECT_EQ(to_toml(key.access.get(after, 0)), to_toml(other)) << key.path();
      const auto changed = deck_differences(before, after);
      ASSERT_EQ(changed.size(), 1U) << key.path();
      EXPECT_EQ(changed[0].rfind(key.path() + ":", 0), 0U) << changed[0];
    }
  }
}

// A key that is new counts until somebody says that the model computes the same without it.
TEST(Reference, EveryKeyOfAModelTellsItFromAnotherButThoseOfTrainingAndThoseUnused) {
  const auto uncounted = [](const ModelConfig& model) {
    std::set<std::string> free;
    for (const auto& key : find_section("model")->keys) {
      Deck before, after;
      before.model = after.model = model;
      key.access.set(after, 0, other_value(key, before));
      const auto all = model_differences(before.model, after.model);
      const bool named = std::ranges::any_of(
          all, [&](const auto& line) { return line.starts_with(key.path() + ": "); });
      EXPECT_EQ(named, !all.empty()) << key.path();
      if (!named) free.insert(key.name);
    }
    return free;
  };
  ModelConfig c;
  c.bias = false;
  c.positions = Positions::rotary;
  c.rope_scaling = RopeScaling::llama3;
  c.qk_norm = true;
  c.experts = 8;
  c.expert_width = 3;
  c.shared_expert_width = 5;
  c.dense_layers = {0};
  c.window = 5;
  std::set<std::string> free{"preset",    "context", "max_context",  "dropout",
                             "recompute", "offload", "chunk_tokens", "init_from"};
  const std::set<std::string> of_yarn{"rope_beta_fast", "rope_beta_slow", "rope_truncate",
                                      "rope_attention_factor"};
  free.insert(of_yarn.begin(), of_yarn.end());
  EXPECT_EQ(uncounted(c), free);
  c.qk_norm = false;
  c.dense_layers.clear();
  c.shared_expert_width = 0;
  free.insert("qk_norm_over");
  const std::set<std::string> of_parts{"ffn_width", "shared_expert_gate"};
  free.insert(of_parts.begin(), of_parts.end());
  EXPECT_EQ(uncounted(c), free);
  for (const auto& key : of_parts) free.erase(key);
  c.experts = 0;
  free.merge(std::set<std::string>{"experts_per_token", "expert_width", "shared_expert_width",
                                   "shared_expert_gate", "expert_bias", "router", "norm_topk",
                                   "dense_layers"});
  EXPECT_EQ(uncounted(c), free);
  c.bias = true;
  c.rope_scaling = RopeScaling::linear;
  free.merge(std::set<std::string>{"qkv_bias", "rope_low_freq_factor", "rope_high_freq_factor",
                                   "rope_original_context"});
  EXPECT_EQ(uncounted(c), free);
  c.positions = Positions::learned;
  free.merge(std::set<std::string>{"rope_theta", "rope_scaling", "rope_factor", "window_rope_theta",
                                   "nope_layers", "rotary_dim"});
  EXPECT_EQ(uncounted(c), free);
}

TEST(Reference, ShippedDecksLoadAndDumpEqual) {
  int decks = 0;
  const auto folder = test::source_dir() / "inputs";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    // What fits depends on the model that the user imports; tests/hf/guide_test.py runs these.
    if (read_text(entry.path()).find("theirs.checkpoint") != std::string::npos) continue;
    ++decks;
    const Deck d = load_deck(entry.path());
    EXPECT_EQ(parse_deck(dump_deck(d), entry.path().filename().string()), d) << entry.path();
  }
  EXPECT_GE(decks, 7);
}

}  // namespace trireme
