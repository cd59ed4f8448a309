// What is generated from the table, and the table's own promises.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

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
    const DeckKey* key = find_key(path);
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
  try {
    describe_key("model.layer");
    FAIL() << "an unknown key was described";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "there is no deck key or section 'model.layer'; did you mean 'model.layers'?");
  }
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

// Each key reads back what was written through its accessor and moves nothing else.
TEST(Reference, AccessorsReachTheirOwnMember) {
  for (const auto& section : deck_sections()) {
    if (section.repeated) continue;
    for (const auto& key : section.keys) {
      const Deck before;
      Deck after = before;
      DeckValue other;
      switch (key.kind) {
        case ValueKind::flag:
          other = !std::get<bool>(key.access.get(before, 0));
          break;
        case ValueKind::integer:
          other = std::int64_t{4321};
          break;
        case ValueKind::real:
        case ValueKind::duration:
          other = 0.4321;
          break;
        case ValueKind::text:
        case ValueKind::path:
          other = std::string("other");
          break;
        case ValueKind::choice:
          other = key.choices.back();
          break;
        case ValueKind::integers:
          other = std::vector<std::int64_t>{4, 3};
          break;
        case ValueKind::reals:
          other = std::vector<double>{0.4, 0.3};
          break;
        default:
          other = std::vector<std::string>{"other"};
      }
      key.access.set(after, 0, other);
      EXPECT_EQ(to_toml(key.access.get(after, 0)), to_toml(other)) << key.path();
      const auto changed = deck_differences(before, after);
      ASSERT_EQ(changed.size(), 1U) << key.path();
      EXPECT_EQ(changed[0].rfind(key.path() + ":", 0), 0U) << changed[0];
    }
  }
}

TEST(Reference, ShippedDecksLoadAndDumpEqual) {
  int decks = 0;
  const auto folder = test::source_dir() / "inputs";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    ++decks;
    const Deck d = load_deck(entry.path());
    EXPECT_EQ(parse_deck(dump_deck(d), entry.path().filename().string()), d) << entry.path();
  }
  EXPECT_GE(decks, 7);
}

}  // namespace trireme
