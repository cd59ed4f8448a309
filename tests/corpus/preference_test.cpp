// Pairs of documents: from JSON lines to a token file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/corpus/tokenize.hpp"
#include "tests/corpus/pair_files.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Pairs = test::PairFiles;

TEST_F(Pairs, OfTexts) {
  const auto s = tokenize(options(R"({"prompt": "why ", "chosen": "so", "rejected": "no!"}
{"prompt": "", "chosen": "aa", "rejected": "b"}
{"prompt": "p", "chosen": "", "rejected": "c"})"));
  EXPECT_EQ(text(), "why SO!why NO!!AA!B!p!pC!");
  EXPECT_EQ(s.documents, 6);
  const TokenFile file(output_);
  EXPECT_EQ(file.header().kind, Documents::pairs);
  EXPECT_EQ(file.header().documents, 6);
}

TEST_F(Pairs, OfConversations) {
  const ChatWriter plain({"turns", test::pair_turns}, *bytes_);
  const auto as_text = [&](const std::string& line) {
    auto o = options(line);
    o.chat = &plain;
    tokenize(o);
    return text();
  };
  const std::string user = R"({"role": "user", "content": "x"})",
                    yes = R"({"role": "assistant", "content": "yes"})",
                    no = R"({"role": "assistant", "content": "no"})";
  const std::string want = "u:x;a:yes;u:x;a:YES;|u:x;a:yes;u:x;a:NO;|";
  EXPECT_EQ(as_text(R"({"chosen": [)" + user + "," + yes + "," + user + "," + yes +
                    R"(], "rejected": [)" + user + "," + yes + "," + user + "," + no + "]}"),
            want);
  EXPECT_EQ(as_text(R"({"prompt": [)" + user + "," + yes + "," + user + R"(], "chosen": [)" + yes +
                    R"(], "rejected": [)" + no + "]}"),
            want);
  // One is the other's begin: at least its own last answer is learnt.
  EXPECT_EQ(as_text(R"({"chosen": [)" + user + "," + yes + R"(], "rejected": [)" + user + "," +
                    yes + "," + user + "," + no + "]}"),
            "u:x;a:YES;|u:x;a:YES;u:x;a:NO;|");
  auto o = options(R"({"chosen": [)" + user + R"(], "rejected": [)" + user + "," + yes + "]}");
  o.chat = &plain;
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }),
              HasSubstr("\"chosen\" has no assistant message"));
}

// As data sets have it: what is meant is in each the same conversation.
TEST_F(Pairs, AreReadFromAllForms) {
  const ChatWriter plain({"turns", test::pair_turns}, *bytes_);
  const auto as_text = [&](const std::string& line) {
    auto o = options(line);
    o.chat = &plain;
    tokenize(o);
    return text();
  };
  const auto made = [](const char* a, const char* b) {
    return [a, b](const std::string& role, const std::string& content) {
      return "{\"" + std::string(a) + "\": \"" + role + "\", \"" + b + "\": \"" + content + "\"}";
    };
  };
  const auto own = made("role", "content"), shared = made("from", "value");
  const auto x = own("user", "x"), y = own("assistant", "y"), n = own("assistant", "n"),
             s = own("system", "s"), from_x = shared("human", "x"), from_y = shared("gpt", "y"),
             from_n = shared("gpt", "n");
  const auto line = [](const std::string& prompt, const std::string& chosen,
                       const std::string& rejected) {
    return "{" + (prompt.empty() ? "" : prompt + ", ") + "\"chosen\": " + chosen +
           ", \"rejected\": " + rejected + "}";
  };
  const auto list = [](const auto&... m) {
    std::string all;
    ((all += (all.empty() ? "[" : ", ") + m), ...);
    return all + "]";
  };
  const std::string want = "u:x;a:Y;|u:x;a:N;|",
                    with_system = "s:s;" + want.substr(0, 9) + "s:s;" + want.substr(9);
  for (const auto& same : {
           line("\"prompt\": " + list(x), list(y), list(n)),
           line("", list(x, y), list(x, n)),
           line(R"("prompt": "")", list(x, y), list(x, n)),
           // ultrafeedback
           line(R"("prompt": "x")", list(x, y), list(x, n)),
           line(R"("prompt": "x", "messages": )" + list(x, y), list(x, y), list(x, n)),
           line(R"("prompt": "x")", list(y), list(n)),
           line(R"("prompt": "x")", y, n),
           line(R"("prompt": "x")", "\"y\"", "\"n\""),
           line("\"prompt\": " + list(x), "\"y\"", "\"n\""),
           line("\"prompt\": " + list(x), list(x, y), list(x, n)),
           // ShareGPT, as LLaMA-Factory reads it
           line("\"conversations\": " + list(from_x), from_y, from_n),
           line("\"conversations\": " + list(from_x), list(from_y), list(from_n)),
           line("\"conversations\": " + list(from_x) + ", \"system\": \"\"", y, n),
           line("", list(from_x, from_y), list(from_x, from_n)),
           line(R"("prompt": "", "conversations": )" + list(from_x), from_y, from_n),
           line(R"("prompt": [], "conversations": )" + list(from_x), from_y, from_n),
       })
    EXPECT_EQ(as_text(same), want) << same;
  for (const auto& same : {
           line("\"prompt\": " + list(s, x), list(y), list(n)),
           line("\"prompt\": " + list(x), list(s, x, y), list(s, x, n)),
           line(R"("prompt": "x")", list(s, x, y), list(s, x, n)),
           line(R"("system": "s", "prompt": "x")", list(x, y), list(x, n)),
           line("\"conversations\": " + list(from_x) + ", \"system\": \"s\"", from_y, from_n),
       })
    EXPECT_EQ(as_text(same), with_system) << same;
  // The text is what the last user asks; all of both is there.
  EXPECT_EQ(as_text(line(R"("prompt": "x")", list(own("user", "v"), n, x, y),
                         list(own("user", "v"), n, x, n))),
            "u:v;a:n;u:x;a:Y;|u:v;a:n;u:x;a:N;|");

  const auto refused = [&](const std::string& l) {
    auto o = options(l);
    o.chat = &plain;
    return message_of<Error>([&] { tokenize(o); });
  };
  EXPECT_THAT(refused(line(R"("prompt": "z")", list(x, y), list(x, n))),
              HasSubstr("in.jsonl:1: \"chosen\" and \"rejected\" do not both contain"));
  EXPECT_THAT(refused(line("\"prompt\": " + list(x, y), list(x, y), list(x, n))),
              HasSubstr("begins with a message of the role user"));
  EXPECT_THAT(refused(line("\"prompt\": " + list(own("user", "z")), list(s, x, y), list(s, x, n))),
              HasSubstr("begins with a message of the role system"));
  EXPECT_THAT(refused(line(R"("prompt": "x", "conversations": )" + list(from_x), from_y, from_n)),
              HasSubstr("\"prompt\" and \"conversations\""));
  EXPECT_THAT(refused(line("", "\"y\"", "\"n\"")), HasSubstr("there is no \"prompt\""));
  EXPECT_THAT(refused(line("\"prompt\": 3", y, n)), HasSubstr("neither a text nor a list"));
  EXPECT_THAT(refused(R"({"prompt": "x", "chosen": "y"})"), HasSubstr("no \"rejected\""));
  EXPECT_THAT(refused(line(R"("system": "t", "prompt": "x")", list(s, x, y), list(s, x, n))),
              HasSubstr("\"system\" differs from the system message"));
}

// What the template makes the same, or differs in what is not learnt, teaches nothing.
TEST_F(Pairs, OfTheSameAnswersAreLeftOut) {
  const auto s = tokenize(options(R"({"prompt": "a", "chosen": "b", "rejected": "b"}
{"prompt": "a", "chosen": "b", "rejected": "c"}
{"prompt": "", "chosen": "b", "rejected": "c"})"));
  EXPECT_EQ(text(), "aB!aC!");
  EXPECT_EQ(s.documents, 2);
  EXPECT_EQ(s.learnt, 4);
  EXPECT_EQ(s.same.count, 2);
  EXPECT_THAT(s.same.first, HasSubstr("in.jsonl:1"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "chosen": "b", "rejected": "b"})"),
              testing::EndsWith("in.jsonl:1: " + output_ + " was not written"));
  EXPECT_THAT(refusal(R"({"prompt": "", "chosen": "b", "rejected": "c"})"),
              testing::AllOf(HasSubstr("the same tokens to train on in the only pair, "),
                             HasSubstr("in.jsonl:1 (without a prompt, the first token is not")));
  EXPECT_THAT(refusal(R"({"prompt": "a", "chosen": "b", "rejected": "b"}
{"prompt": "c", "chosen": "d", "rejected": "d"})"),
              HasSubstr("the same tokens to train on in all 2 pairs, the first at "));

  const ChatWriter plain({"turns", test::pair_turns}, *bytes_);
  const auto pair = [](const char* ask, const char* yes, const char* ask_too, const char* no) {
    return fmt::format(
        R"({{"chosen": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}}],)"
        R"( "rejected": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}}]}})"
        "\n",
        ask, yes, ask_too, no);
  };
  auto o = options(pair("x", "y", "x", "n") + pair("x", "y", "x", " y ") +
                   pair("x", "y", "z", "y") + pair("x", "y", "x", "y"));
  o.chat = &plain;
  const auto chats = tokenize(o);
  EXPECT_EQ(text(), "u:x;a:Y;|u:x;a:N;|");
  EXPECT_EQ(chats.same.count, 3);
  EXPECT_THAT(chats.same.first, HasSubstr("in.jsonl:2"));
}

TEST_F(Pairs, AreRefusedByLine) {
  EXPECT_THAT(refusal("\n"
                      R"({"prompt": "a", "chosen": "b"})"),
              HasSubstr("in.jsonl:2: there is no field \"rejected\""));
  EXPECT_THAT(refusal(R"({"conversations": [], "chosen": {}, "rejected": {}})"),
              HasSubstr("for messages, add --chat"));
  EXPECT_THAT(refusal(R"({"prompt": "", "chosen": "b", "rejected": ""})"),
              HasSubstr("a document of the pair is empty"));
  EXPECT_THAT(refusal(R"({"prompt": "", "chosen": [], "rejected": ""})"), HasSubstr("add --chat"));
  EXPECT_THAT(refusal(R"({"prompt": "a\u0000", "chosen": "b", "rejected": "c"})"),
              HasSubstr("the separator 0 (\"\\x00\") is inside"));
  auto o = options(R"({"prompt": "a", "chosen": "b", "rejected": "c"})");
  o.separator = std::nullopt;
  EXPECT_THAT(message_of<Error>([&] { tokenize(o); }), HasSubstr("need a separator"));
}

}  // namespace
}  // namespace trireme
