// The token file that one rank makes of parts.
#include "lib/corpus/tokenize_on_ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "lib/corpus/part_file.hpp"
#include "lib/corpus/part_folder.hpp"
#include "lib/corpus/segments.hpp"
#include "tests/chat/toy_tokenizer.hpp"
#include "tests/corpus/pair_files.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"
#include "tests/tokenizer/letters.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

// One rank makes the same file of parts as without them.
class OfParts : public testing::Test {
 protected:
  TokenizeOptions options(const std::string& name, const std::string& contents) const {
    TokenizeOptions o;
    o.inputs = {scratch_.write(name, contents)};
    o.output = scratch_ / "out.tokens";
    o.existing = ExistingFile::replaced;
    o.tokenizer = bytes_.get();
    o.separator = 0;
    return o;
  }
  std::string folder() const { return part_folder_of(scratch_ / "out.tokens"); }
  TokenizeSummary of_parts(const TokenizeOptions& o) const {
    std::filesystem::create_directory(folder());
    return tokenize_on_ranks(Communicator(), o);
  }
  void expect_same(TokenizeOptions o) const {
    o.threads = 1;
    const auto whole = tokenize(o);
    const auto want = contents_of(o.output);
    for (const auto& [size, threads] : {std::pair(900, 3), {100'000'000, 1}}) {
      o.part_bytes = size;
      o.threads = threads;
      std::filesystem::remove(o.output);
      const auto s = of_parts(o);
      EXPECT_TRUE(contents_of(o.output) == want) << "parts of " << size;
      EXPECT_FALSE(std::filesystem::exists(folder()));
      EXPECT_EQ(s.bytes, whole.bytes);
      EXPECT_EQ(s.files, whole.files);
      EXPECT_EQ(s.documents, whole.documents);
      EXPECT_EQ(s.tokens, whole.tokens);
      EXPECT_EQ(s.learnt, whole.learnt);
      EXPECT_EQ(s.alike.first, whole.alike.first);
      EXPECT_EQ(s.alike.count, whole.alike.count);
      EXPECT_EQ(s.same.first, whole.same.first);
      EXPECT_EQ(s.empty.first, whole.empty.first);
      EXPECT_EQ(s.untrained.first, whole.untrained.first);
      EXPECT_EQ(s.unread.size(), whole.unread.size());
      for (const auto& [key, found] : whole.unread)
        EXPECT_EQ(s.unread.at(key).first, found.first) << key;
    }
  }
  // Lines of a few to some hundred bytes.
  static std::string lines(int n, const std::function<std::string(int, std::string)>& line) {
    std::string all;
    for (int i = 0; i < n; ++i)
      all += line(i, std::string(static_cast<std::size_t>(i * 7919 % 301), 'f')) +
             (i % 7 == 3 ? "\n \n" : "\n");
    return all;
  }

  const ScratchFolder scratch_;
  const std::unique_ptr<Tokenizer> bytes_ = bytes_tokenizer();
};

TEST_F(OfParts, Lines) {
  const auto text =
      lines(60, [](int i, auto f) { return fmt::format(R"({{"text": "{}{}"}})", i, f); });
  auto o = options("a.jsonl", "\xef\xbb\xbf" + text);
  o.inputs.push_back(scratch_.write("b.txt", "a text"));
  o.inputs.push_back(scratch_.write("empty.jsonl", ""));
  o.inputs.push_back(scratch_.write("c.jsonl", text.substr(0, text.size() - 1)));
  expect_same(o);
}

TEST_F(OfParts, PromptsAndPairs) {
  auto o = options("a.jsonl", lines(60, [](int i, auto f) {
                     return fmt::format(R"({{"prompt": "{}{}", "chosen": "{}", "rejected": "z"}})",
                                        i, f, i % 9 == 8 ? "z" : "y");
                   }));
  o.prompt = "prompt";
  o.completion = "chosen";
  expect_same(o);
  o.prompt = o.completion = "";
  o.documents = Documents::pairs;
  o.inputs.push_back(
      scratch_.write("b.jsonl", R"({"prompt": "", "chosen": "a", "rejected": "b"})"));
  expect_same(o);
}

TEST_F(OfParts, Weights) {
  auto o = options("a.jsonl", lines(60, [](int i, auto f) {
                     return fmt::format(R"({{"text": "{}{}"{}}})", i, f,
                                        i % 7 == 5 ? "" : fmt::format(R"(, "w": {})", i / 20));
                   }));
  o.weight = "w";
  expect_same(o);
}

// The mismatched answer of a part's last line is in the next part that has a line.
TEST_F(OfParts, LabeledAnswers) {
  auto o = options("a.jsonl", lines(60, [](int i, auto f) {
                     return fmt::format(
                         R"({{"prompt": "{}p", "completion": "{}", "label": {}, "other": 1}})", f,
                         i % 13 == 5 ? 0 : i, i % 3 == 0);
                   }));
  o.inputs.push_back(scratch_.write("blank.jsonl", "\n \n"));
  o.inputs.push_back(
      scratch_.write("b.jsonl", R"({"prompt": "q", "completion": "a", "label": true})"));
  o.documents = Documents::labeled;
  expect_same(o);
}

TEST_F(OfParts, Conversations) {
  const ChatWriter plain({"turns", test::pair_turns}, *bytes_);
  auto o = options("a.jsonl", lines(40, [](int i, auto f) {
                     return fmt::format(R"({{"messages": [{{"role": "user", "content": "{}{}"}}, )"
                                        R"({{"role": "assistant", "content": "{}"}}], "more": 1}})",
                                        i, f, i % 8 == 5 ? "" : "yes");
                   }));
  o.chat = &plain;
  o.part_bytes = 3000;
  o.threads = 1;
  const auto whole = tokenize(o);
  const auto want = contents_of(o.output);
  const auto s = of_parts(o);
  EXPECT_TRUE(contents_of(o.output) == want);
  EXPECT_EQ(s.empty.count, 5);
  EXPECT_EQ(s.empty.first, whole.empty.first);
  EXPECT_EQ(s.untrained.first, whole.untrained.first);
  EXPECT_EQ(s.unread.at("more").first, whole.unread.at("more").first);
}

// Documents of several items, with places to cut and without.
TEST_F(OfParts, Texts) {
  std::string text;
  for (int i = 0; text.size() < 3 * item_bytes; ++i) {
    text += std::string(static_cast<std::size_t>(i * 7919 % 301), static_cast<char>('a' + i % 7));
    text += i % 5 == 0 ? "\n" : i % 11 == 3 ? "\n\n" : " ";
  }
  const auto letters =
      make_tokenizer(tokenizer_of_letters("abcdefg \n", {"<end>"},
                                          {{"tokenizer_config.json", R"({"eos_token": "<end>"})"}}),
                     "a test");
  for (const Tokenizer* tokenizer : {bytes_.get(), letters.get()}) {
    auto o = options("a.txt", text);
    if (tokenizer == letters.get()) o.inputs.push_back(scratch_.write("b.txt", "a<end>b <end>c"));
    o.inputs.push_back(scratch_.write("c.txt", std::string(2 * item_bytes, 'e')));
    // Without a place to cut in its first parts.
    o.inputs.push_back(scratch_.write("d.txt", std::string(200'000, 'e') + " " + text));
    o.tokenizer = tokenizer;
    o.separator = tokenizer->separator();
    o.threads = 1;
    const auto whole = tokenize(o);
    const auto want = contents_of(o.output);
    for (const std::int64_t size : {90'001, 400'000}) {
      o.part_bytes = size;
      const auto s = of_parts(o);
      EXPECT_TRUE(contents_of(o.output) == want) << size;
      EXPECT_EQ(s.documents, whole.documents);
    }
  }
}

TEST_F(OfParts, ErrorsNameTheLine) {
  const auto bad = [](int at) {
    return lines(60, [at](int i, auto f) {
      return i == at ? "{]" : fmt::format(R"({{"text": "{}{}"}})", i, f);
    });
  };
  for (const int at : {0, 17, 59}) {
    auto o = options("a.jsonl", bad(at));
    o.inputs.insert(o.inputs.begin(), scratch_.write("first.txt", "x"));
    const auto want = message_of<Error>([&] { tokenize(o); });
    EXPECT_THAT(want, HasSubstr("a.jsonl:"));
    o.part_bytes = 3000;
    EXPECT_EQ(message_of<Error>([&] { of_parts(o); }), want);
    EXPECT_FALSE(std::filesystem::exists(o.output));
  }
}

// Finished parts stay after an error. They are used if their file and the options are the same.
TEST_F(OfParts, AreUsedAgain) {
  auto o =
      options("a.jsonl",
              lines(60, [](int i, auto f) { return fmt::format(R"({{"text": "{}{}"}})", i, f); }));
  o.inputs.push_back(scratch_.write("b.jsonl", "{]\n"));
  o.part_bytes = 1000;
  EXPECT_THAT(message_of<Error>([&] { of_parts(o); }), HasSubstr("b.jsonl:1:"));
  // Parts with other tokens show whether they are used.
  std::size_t made = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder())) {
    if (e.path().extension() != ".part") continue;
    ++made;
    PackedTokens z;
    z.append(std::vector{std::int32_t{'Z'}}, 2);
    TextTotals totals;
    totals.sum.tokens = 1;
    PartWriter writer(e.path());
    writer.append(z);
    writer.finish(totals);
  }
  ASSERT_GT(made, 5U);
  std::filesystem::rename(folder(), scratch_ / "kept");
  scratch_.write("b.jsonl", "{\"text\": \"b\"}\n");
  const auto tokens_after = [&](TokenizeOptions other) {
    std::filesystem::copy(scratch_ / "kept", folder());
    tokenize_on_ranks(Communicator(), other);
    EXPECT_FALSE(std::filesystem::exists(folder()));
    return bytes_->decode(all_ids(o.output));
  };
  EXPECT_EQ(tokens_after(o), std::string(made, 'Z') + "b" + '\0');
  auto other = o;
  other.separator = std::nullopt;
  EXPECT_EQ(tokens_after(other).find('Z'), std::string::npos);
  other = o;
  other.vocab = 300;
  EXPECT_EQ(tokens_after(other).find('Z'), std::string::npos);
  const auto a = o.inputs[0];
  const auto time = std::filesystem::last_write_time(a);
  std::filesystem::last_write_time(a, time + std::chrono::nanoseconds(1000));
  EXPECT_EQ(tokens_after(o).find('Z'), std::string::npos);
  std::filesystem::last_write_time(a, time);
  EXPECT_EQ(tokens_after(o), std::string(made, 'Z') + "b" + '\0');
}

// Whenever the job is stopped, the next one makes the file that it would have made.
TEST_F(OfParts, AreKeptIfTheJobIsStopped) {
  auto o =
      options("a.jsonl",
              lines(60, [](int i, auto f) { return fmt::format(R"({{"text": "{}{}"}})", i, f); }));
  o.threads = 1;
  tokenize(o);
  const auto want = contents_of(o.output);
  std::filesystem::remove(o.output);
  o.part_bytes = 1000;
  bool kept = false, stopped = true;
  for (int before = 0; stopped; ++before) {
    ASSERT_LT(before, 1000);
    int left = before;
    auto stopping = o;
    stopping.stopped_by = [&left] { return left-- > 0 ? "" : "SIGTERM"; };
    try {
      tokenize_on_ranks(Communicator(), stopping);
      stopped = false;
    } catch (const StoppedJob& e) {
      EXPECT_STREQ(e.what(), "SIGTERM");
      EXPECT_FALSE(std::filesystem::exists(o.output));
      kept = kept || std::filesystem::exists(folder());
      if (before % 2 == 1) std::filesystem::remove_all(folder());
    }
    if (!std::filesystem::exists(folder())) continue;
    for (const auto& e : std::filesystem::directory_iterator(folder()))
      EXPECT_EQ(e.path().filename().string().find("writing"), std::string::npos);
  }
  EXPECT_TRUE(kept);
  EXPECT_TRUE(contents_of(o.output) == want);
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

TEST_F(OfParts, AreNotNeededToStop) {
  auto o = options("a.txt", "a text");
  o.stopped_by = [] { return "SIGINT"; };
  EXPECT_THROW(tokenize_on_ranks(Communicator(), o), StoppedJob);
  o.format = InputFormat::raw_u16;
  o.vocab = 65536;
  EXPECT_THROW(tokenize_on_ranks(Communicator(), o), StoppedJob);
  EXPECT_FALSE(std::filesystem::exists(o.output));
}

// A single rank makes them without a folder of an earlier job, too.
TEST_F(OfParts, AreMadeIfTheirSizeIsGiven) {
  auto o = options("a.txt", "a text");
  o.inputs.push_back(scratch_.write("b.txt",
                                    "Stra\xdf"
                                    "e. Caf\xe9.\nPr\xe9s"));
  o.part_bytes = 20;
  const auto said = message_of<Error>([&] { tokenize_on_ranks(Communicator(), o); });
  EXPECT_THAT(said, HasSubstr("b.txt is not UTF-8 in line 1, at byte 4, but probably ISO-8859-1"));
  EXPECT_TRUE(std::filesystem::exists(folder()));
  o.inputs.pop_back();
  tokenize_on_ranks(Communicator(), o);
  EXPECT_FALSE(std::filesystem::exists(folder()));
  EXPECT_EQ(bytes_->decode(all_ids(o.output)), std::string("a text") + '\0');
}

// The file that a rank reads must be the one that was listed.
TEST_F(OfParts, OfChangedFilesAreRefused) {
  auto o = options("a.jsonl", "{\"text\": \"a\"}\n");
  const auto a = o.inputs[0];
  const auto stamp = stamp_of(a);
  const auto refusal = [&](FileStamp other) {
    TextSource source([](const TextItem&) {});
    return message_of<Error>([&] { add_segment(o, {a, other}, {}, source); });
  };
  EXPECT_EQ(refusal(stamp), "");
  EXPECT_THAT(message_of<Error>([&] {
                line_ends_of({a, {20, 1}}, {.end = 20});
              }),
              HasSubstr("a.jsonl has 14 bytes, but had 20"));
  EXPECT_THAT(refusal({stamp.size + 1, stamp.modified}),
              HasSubstr("a.jsonl has 14 bytes, but had 15"));
  EXPECT_THAT(refusal({stamp.size, stamp.modified + 1}), HasSubstr("modification time"));
}

TEST_F(OfParts, OfTwoJobsAtATimeAreRefused) {
  auto o = options("a.txt", "a");
  const PartFolder other(o.output);
  EXPECT_THAT(message_of<Error>([&] { of_parts(o); }), HasSubstr("another job writes"));
}

}  // namespace
}  // namespace trireme
