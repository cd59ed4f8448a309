// Labeled answers: from JSON lines to a token file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/corpus/tokenize.hpp"
#include "tests/corpus/pair_files.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LabeledFiles : public test::PairFiles {
 protected:
  TokenizeOptions labeled(const std::string& lines) const {
    auto o = options(lines);
    o.documents = Documents::labeled;
    return o;
  }
  std::string refused(const std::string& lines) const {
    return message_of<Error>([&] { tokenize(labeled(lines)); });
  }
};

// Each prompt is written with its own answer and with the next one's.
TEST_F(LabeledFiles, OfTexts) {
  const auto s = tokenize(labeled(R"({"prompt": "why ", "completion": "so", "label": true}

{"prompt": "p", "completion": "", "label": false}
{"prompt": "", "completion": "aa", "label": true})"));
  EXPECT_EQ(text(), "why SO!why !p!pAA!AA!SO!");
  EXPECT_EQ(s.documents, 6);
  const TokenFile file(output_);
  EXPECT_EQ(file.header().kind, Documents::labeled);
  EXPECT_EQ(file.header().documents, 6);
  EXPECT_THAT(file.labels(), ElementsAre(true, false, true));
  EXPECT_EQ(file.verify(), Verified::hash_and_ids);
}

// An answer's next one may be in another item or in another file.
TEST_F(LabeledFiles, OfManyItems) {
  const std::string filler(1000, 'f');
  std::string lines;
  constexpr int n = 700;  // of about 1 kB each, and an item has 256 kB
  for (int i = 0; i < n; ++i)
    lines += fmt::format("{{\"prompt\": \"{}p\", \"completion\": \"{}\", \"label\": {}}}\n\n",
                         filler, i, i % 3 == 0);
  std::string before;
  for (const int threads : {1, 3}) {
    auto o = labeled(lines);
    o.inputs = {scratch_.write("a.jsonl", lines.substr(0, lines.find('\n') + 1)),
                scratch_.write("blank.jsonl", "\n \n"),
                scratch_.write("b.jsonl", lines.substr(lines.find('\n') + 1))};
    o.threads = threads;
    EXPECT_EQ(tokenize(o).documents, 2 * n);
    std::string want;
    for (int i = 0; i < n; ++i) want += fmt::format("{}p{}!{}p{}!", filler, i, filler, (i + 1) % n);
    EXPECT_EQ(text(), want);
    const auto labels = TokenFile(output_).labels();
    ASSERT_EQ(std::ssize(labels), n);
    for (int i = 0; i < n; ++i) EXPECT_EQ(labels[static_cast<std::size_t>(i)], i % 3 == 0) << i;
  }
}

// In TRL's form, as texts, and as whole conversations.
TEST_F(LabeledFiles, OfConversations) {
  const ChatWriter plain({"turns", test::pair_turns}, *bytes_);
  const auto tokenized = [&](const std::string& lines) {
    auto o = labeled(lines);
    o.chat = &plain;
    return message_of<Error>([&] { tokenize(o); });
  };
  const std::string no = R"({"prompt": "z", "completion": "n", "label": false})";
  for (
      const std::string yes :
      {R"({"prompt": [{"role": "user", "content": "x"}], "completion": [{"role": "assistant", "content": "y"}], "label": true})",
       R"({"prompt": "x", "completion": {"from": "gpt", "value": "y"}, "label": true})",
       R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "label": true})"}) {
    EXPECT_EQ(tokenized(yes + "\n" + no), "") << yes;
    EXPECT_EQ(text(), "u:x;a:Y;|u:x;a:N;|u:z;a:N;|u:z;a:Y;|") << yes;
    EXPECT_THAT(TokenFile(output_).labels(), ElementsAre(true, false));
  }
  // Only the answer is learnt, and not what the assistant says in the prompt.
  const std::string longer =
      R"({"system": "s", "prompt": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "v"}, {"role": "user", "content": "w"}], "completion": "y", "label": true})";
  EXPECT_EQ(tokenized(longer + "\n" + no), "");
  EXPECT_EQ(text(), "s:s;u:x;a:v;u:w;a:Y;|s:s;u:x;a:v;u:w;a:N;|u:z;a:N;|u:z;a:Y;|");

  const auto line = [](const std::string& members) { return "{" + members + ", \"label\": true}"; };
  EXPECT_THAT(tokenized(no + "\n" + line(R"("completion": "n")")),
              HasSubstr("in.jsonl:2: there is no \"prompt\""));
  EXPECT_THAT(tokenized(line(R"("prompt": "x", "completion": [{"role": "user", "content": "y"}])")),
              HasSubstr("\"completion\" has no assistant message"));
  EXPECT_THAT(
      tokenized(line(
          R"("prompt": "x", "completion": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])")),
      HasSubstr("begins with a message of the role user"));
  EXPECT_THAT(tokenized(line(R"("messages": [{"role": "user", "content": "x"}])")),
              HasSubstr("the last message is not an assistant message"));
  for (const char* other : {"prompt", "completion"})
    EXPECT_THAT(
        tokenized(fmt::format(
            R"({{"{}": "x", "messages": [{{"role": "user", "content": "u"}}, {{"role": "assistant", "content": "a"}}], "label": true}})",
            other)),
        HasSubstr(fmt::format("both \"messages\" and \"{}\"", other)));
  // An answer that cannot follow the prompt before it.
  const std::string after_answer =
      R"({"prompt": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "v"}], "completion": [{"role": "tool", "content": "4"}, {"role": "assistant", "content": "y"}], "label": true})";
  EXPECT_THAT(tokenized(no + "\n" + after_answer), HasSubstr("in.jsonl:1: "));
}

// Of neighbors, one is the mismatched answer of the other.
TEST_F(LabeledFiles, NeighborsThatAreAlikeAreCounted) {
  const auto line = [](std::string_view prompt, std::string_view answer) {
    return fmt::format(R"({{"prompt": "{}", "completion": "{}", "label": true}})"
                       "\n",
                       prompt, answer);
  };
  const auto alike = [&](const std::string& lines) { return tokenize(labeled(lines)).alike; };
  EXPECT_EQ(alike(line("p", "a") + line("q", "b") + line("r", "c")).count, 0);
  const auto found = alike(line("p", "a") + line("q", "b") + line("q", "c") + line("r", "c"));
  EXPECT_EQ(found.count, 2);
  EXPECT_THAT(found.first, HasSubstr("in.jsonl:2"));
  // The first line follows the last one.
  EXPECT_THAT(alike(line("p", "a") + line("q", "b") + line("p", "c")).first,
              HasSubstr("in.jsonl:3"));
}

// Each line counts once, although it is read again for its neighbor.
TEST_F(LabeledFiles, KeysThatAreNotReadAreCounted) {
  const auto line = [](int i, std::string_view more) {
    return fmt::format("{{\"prompt\": \"{}\", \"completion\": \"{}\", \"label\": true{}}}\n", i,
                       i + 100, more);
  };
  std::string lines;
  for (int i = 0; i < 5; ++i) lines += line(i, i % 2 == 1 ? R"(, "source": "x")" : "");
  auto unread = tokenize(labeled(line(9, R"(, "score": 0.5)") + lines)).unread;
  ASSERT_EQ(unread.size(), 2U);
  EXPECT_EQ(unread["source"].count, 2);
  EXPECT_THAT(unread["source"].first, HasSubstr("in.jsonl:3"));
  EXPECT_EQ(unread["score"].count, 1);
  EXPECT_TRUE(tokenize(labeled(line(1, "") + line(2, ""))).unread.empty());
}

TEST_F(LabeledFiles, AreRefusedByLine) {
  const std::string sound = R"({"prompt": "a", "completion": "b", "label": true})";
  EXPECT_THAT(refused(sound), HasSubstr("a single labeled answer"));
  EXPECT_THAT(refused(""), HasSubstr("no tokens"));
  EXPECT_THAT(refused(sound + "\n" + R"({"prompt": "a", "completion": "b"})"),
              HasSubstr("in.jsonl:2: there is no \"label\" that is true or false"));
  EXPECT_THAT(refused(R"({"prompt": "a", "completion": "b", "label": 1})"),
              HasSubstr("true or false"));
  EXPECT_THAT(refused(R"({"prompt": "a", "label": true})"),
              HasSubstr("there is no field \"completion\""));
  EXPECT_THAT(refused(R"({"prompt": [], "completion": "b", "label": true})"),
              HasSubstr("for messages, add --chat"));
  EXPECT_THAT(refused(sound + "\n" + R"({"prompt": "", "completion": "", "label": true})"),
              HasSubstr("in.jsonl:2: the document is empty"));
  EXPECT_THAT(refused(R"({"prompt": "", "completion": "b", "label": true})"
                      "\n"
                      R"({"prompt": "c", "completion": "", "label": true})"),
              HasSubstr("in.jsonl:1: its prompt with the answer of"));
  EXPECT_THAT(refused(sound + "\n" + R"({"prompt": "c", "completion": "\u0000d", "label": true})"),
              HasSubstr("the separator 0 (\"\\x00\") is inside"));
  EXPECT_THAT(refused(sound + "\n[1]"), HasSubstr("not a JSON object"));
  auto o = labeled(sound + "\n" + sound);
  o.separator = std::nullopt;
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              HasSubstr("labeled answers need a separator"));
}

}  // namespace
}  // namespace trireme
