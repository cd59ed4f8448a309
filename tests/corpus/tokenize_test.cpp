#include "lib/corpus/tokenize.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/base/error.hpp"
#include "lib/corpus/text_source.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Tokenize : public testing::Test {
 protected:
  TokenizeOptions options(std::vector<std::string> inputs) const {
    TokenizeOptions o;
    o.inputs = std::move(inputs);
    o.output = output_;
    o.existing = ExistingFile::replaced;
    o.tokenizer = bytes_.get();
    o.separator = 0;
    return o;
  }
  // The tokens as text, separators as '|'.
  std::string text() const {
    std::string t = bytes_->decode(all_ids(output_));
    for (char& c : t) c = c == '\0' ? '|' : c;
    return t;
  }
  std::string targets() const {
    const TokenFile file(output_);
    std::string t;
    for (std::int64_t i = 0; i < file.count(); ++i) t += is_target(file, i) ? '1' : '0';
    return t;
  }
  std::string refusal(const TokenizeOptions& o) const {
    return message_of<Error>([&] { tokenize(o); });
  }

  const ScratchFolder scratch_;
  const std::string output_ = scratch_ / "out.tokens";
  const std::unique_ptr<Tokenizer> bytes_ = bytes_tokenizer();
};

TEST_F(Tokenize, EachFileIsADocument) {
  scratch_.write("b.txt", "two\nlines\n");
  scratch_.write("a.txt", "one");
  scratch_.write("empty.txt", "");
  const auto summary = tokenize(options({scratch_ / "*.txt"}));
  EXPECT_EQ(text(), "one|two\nlines\n|");
  EXPECT_EQ(summary.files, 3);
  EXPECT_EQ(summary.documents, 2);
  EXPECT_EQ(summary.tokens, 15);
  EXPECT_EQ(summary.bytes, 13);
  EXPECT_EQ(summary.vocab, 256);
  const TokenFile file(output_);
  EXPECT_EQ(file.verify(), Verified::hash_and_ids);
  EXPECT_EQ(file.header().documents, 2);
  EXPECT_EQ(file.header().separator, 0);
  EXPECT_EQ(file.tokenizer().kind, TokenizerKind::bytes);
  EXPECT_FALSE(file.header().has_mask);
}

TEST_F(Tokenize, TheSeparatorIsAChoice) {
  auto o = options({scratch_.write("a.txt", "one")});
  o.separator = std::nullopt;
  tokenize(o);
  EXPECT_EQ(text(), "one");
  EXPECT_EQ(TokenFile(output_).header().separator, std::nullopt);
  o.separator = '#';
  tokenize(o);
  EXPECT_EQ(text(), "one#");
  o.separator = 256;
  EXPECT_THAT(refusal(o), HasSubstr("separator 256"));
}

TEST_F(Tokenize, JsonLinesAreDocuments) {
  const std::string file = scratch_.write("a.jsonl",
                                          "{\"text\": \"one\", \"n\": 1}\n\n  {\"text\": "
                                          "\"a\\nb\"}\r\n{\"text\": \"\"}\n{\"text\":\"last\"}");
  tokenize(options({file}));
  EXPECT_EQ(text(), "one|a\nb|last|");
  auto o = options({scratch_.write("b.txt", "{\"body\": \"x\"}\n")});
  o.format = InputFormat::jsonl;
  o.field = "body";
  tokenize(o);
  EXPECT_EQ(text(), "x|");
  // By name, .jsonl and other files may come together.
  tokenize(options({file, scratch_.write("c.txt", "plain")}));
  EXPECT_EQ(text(), "one|a\nb|last|plain|");
}

TEST_F(Tokenize, PromptsAreNoTargets) {
  auto o = options({scratch_.write("a.jsonl",
                                   "{\"q\": \"1+1=\", \"a\": \"2\"}\n{\"q\": \"\", \"a\": \"x\"}\n"
                                   "{\"q\": \"why\", \"a\": \"\"}\n")});
  o.prompt = "q";
  o.completion = "a";
  tokenize(o);
  EXPECT_EQ(text(), "1+1=2|x|why|");
  EXPECT_EQ(targets(),
            "000011"
            "11"
            "0001");
  o.completion.clear();
  EXPECT_THAT(refusal(o), HasSubstr("need each other"));
}

TEST_F(Tokenize, LinesHaveWeights) {
  const auto lines = [&](const std::string& more) {
    auto o = options({scratch_.write("a.jsonl",
                                     "{\"text\": \"aa\", \"w\": 2}\n"
                                     "{\"text\": \"\", \"w\": 9}\n"
                                     "{\"text\": \"b\", \"w\": 0}\n"
                                     "{\"text\": \"ccc\"}\n" +
                                         more)});
    o.weight = "w";
    return o;
  };
  const auto s = tokenize(lines("{\"text\": \"d\", \"w\": 0.1}"));
  EXPECT_EQ(text(), "aa|b|ccc|d|");
  EXPECT_EQ(targets(), "11100111111");
  EXPECT_EQ(s.unweighted.count, 1);
  EXPECT_THAT(s.unweighted.first, HasSubstr("a.jsonl:4"));
  const TokenFile file(output_);
  const auto w = file.weights(0, file.count());
  EXPECT_EQ(w, (std::vector<float>{2, 2, 2, 1, 1, 1, 1, 1, 1, 0.1F, 0.1F}));
  EXPECT_EQ(file.header().weight_ranges, 3);
  EXPECT_EQ(file.verify(), Verified::hash_and_ids);
  for (const char* const bad : {"-1", "1e-7", "65536.5", "1e999", "\"2\"", "true", "[1]"})
    EXPECT_THAT(refusal(lines(std::string("{\"text\": \"d\", \"w\": ") + bad + "}")),
                HasSubstr("a.jsonl:5: "))
        << bad;
  auto o = lines("");
  o.weight = "weight";
  EXPECT_THAT(refusal(o), HasSubstr("no line has the field \"weight\""));
  o.documents = Documents::pairs;
  EXPECT_THAT(refusal(o), HasSubstr("--weight is for single documents"));
  o = options({scratch_.write("b.jsonl", "{\"text\": \"aa\", \"w\": 0}\n")});
  o.weight = "w";
  EXPECT_THAT(refusal(o), HasSubstr("all documents with targets have the weight 0"));
}

// With prompts, and in other items.
TEST_F(Tokenize, WeightsDoNotDependOnThreads) {
  std::string lines;
  constexpr int n = 3000;  // of about 300 bytes
  for (int i = 0; i < n; ++i)
    lines += fmt::format("{{\"p\": \"{}\", \"c\": \"{}\", \"w\": {}}}\n", std::string(250, 'p'), i,
                         1 + i % 5 / 2);
  for (const int threads : {1, 3}) {
    auto o = options({scratch_.write("a.jsonl", lines)});
    o.prompt = "p";
    o.completion = "c";
    o.weight = "w";
    o.threads = threads;
    tokenize(o);
    const TokenFile file(output_);
    std::int64_t at = 0;
    const auto w = file.weights(0, file.count());
    for (int i = 0; i < n; ++i)
      for (std::size_t t = 0; t < 251 + std::to_string(i).size(); ++t, ++at)
        ASSERT_EQ(w[static_cast<std::size_t>(at)], static_cast<float>(1 + i % 5 / 2)) << i;
    EXPECT_EQ(at, file.count());
  }
}

TEST_F(Tokenize, BadLinesAreNamed) {
  const auto refused = [&](const std::string& lines) {
    return refusal(options({scratch_.write("a.jsonl", lines)}));
  };
  EXPECT_THAT(refused("{\"text\": \"x\"}\n\n{\"text\": \n"), HasSubstr("a.jsonl:3:"));
  EXPECT_THAT(refused("{\"body\": \"x\"}\n"),
              AllOf(HasSubstr("a.jsonl:1:"), HasSubstr("\"text\""), HasSubstr("--field")));
  EXPECT_THAT(refused("{\"text\": 3}\n"), HasSubstr("not a string"));
  EXPECT_THAT(refused("3\n"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refused(" \n [{\"text\": \"x\"},\n{\"text\": \"y\"}]\n"),
              AllOf(HasSubstr("JSON array"), HasSubstr("jq -c '.[]' ")));
  EXPECT_THAT(refused("{\"text\": \"\xff\"}\n"), HasSubstr("a.jsonl:1:"));
}

TEST_F(Tokenize, ASeparatorInALineOfJsonIsRefused) {
  const auto name =
      scratch_.write("a.jsonl",
                     "{\"text\": \"x\", \"q\": \"1\", \"a\": \"2\"}\n"
                     "{\"text\": \"x\\u0000y\", \"q\": \"a\\u0000\", \"a\": \"b\"}\n");
  auto o = options({name});
  EXPECT_THAT(refusal(o),
              AllOf(HasSubstr("a.jsonl:2: the separator 0 (\"\\x00\")"), HasSubstr("--separator")));
  o.separator = std::nullopt;
  tokenize(o);
  EXPECT_EQ(text(), "xx|y");
  o.prompt = "q";
  o.completion = "a";
  tokenize(o);
  EXPECT_EQ(text(), "12a|b");
  o.separator = 0;
  EXPECT_THAT(refusal(o), HasSubstr("a.jsonl:2: the separator 0"));
  // Of another id, too; one that ends a text is not written twice.
  o = options({scratch_.write("b.jsonl", "{\"text\": \"one#\"}\n{\"text\": \"t#wo\"}\n")});
  o.separator = '#';
  EXPECT_THAT(refusal(o), HasSubstr("b.jsonl:2: the separator 35 (\"#\")"));
  scratch_.write("b.jsonl", "{\"text\": \"one#\"}\n{\"text\": \"two\"}\n{\"text\": \"#\"}\n");
  EXPECT_EQ(tokenize(o).documents, 2);
  EXPECT_EQ(text(), "one#two#");
}

TEST_F(Tokenize, AZeroByteFarInATextIsRefused) {
  auto o = options({scratch_.write("a.txt", std::string(1 << 17, 'a') + '\0' + "b")});
  EXPECT_THAT(refusal(o), AllOf(HasSubstr("a.txt has a zero byte"), HasSubstr("--from text")));
  o.format = InputFormat::text;
  EXPECT_EQ(tokenize(o).documents, 2);
  o.format = InputFormat::by_name;
  o.separator = 10;
  EXPECT_EQ(tokenize(o).documents, 1);
}

TEST_F(Tokenize, JsonLinesUnderAnotherNameAreNoText) {
  const auto refused = [&](const std::string& text) {
    return refusal(options({scratch_.write("a.txt", text)}));
  };
  EXPECT_THAT(refused("{\"text\": \"one\"}\n{\"text\": \"two\"}\n"),
              AllOf(HasSubstr("a.txt is JSON lines"), HasSubstr("--from jsonl")));
  EXPECT_THAT(refused("\xef\xbb\xbf{\"text\": \"one\"}"), HasSubstr("JSON lines"));
  EXPECT_THAT(refused("{ \"text\" : \"" + std::string(1 << 20, 'a') + "\"}\n{}\n"),
              HasSubstr("JSON lines"));
  for (const auto* code : {"{\n  \"pretty\": 1\n}\n", "{a}\n{b}\n", "{\"a\": 1}\nis an object\n"}) {
    tokenize(options({scratch_.write("b.txt", code)}));
    EXPECT_EQ(text(), std::string(code) + "|");
  }
  auto o = options({scratch_.write("c.txt", "{\"text\": \"one\"}\n")});
  o.format = InputFormat::text;
  tokenize(o);
  EXPECT_EQ(text(), "{\"text\": \"one\"}\n|");
}

TEST_F(Tokenize, AByteOrderMarkIsNoText) {
  const std::string mark = "\xef\xbb\xbf";
  tokenize(options({scratch_.write("a.txt", mark + "one"), scratch_.write("b.txt", mark),
                    scratch_.write("c.jsonl", mark + "{\"text\": \"two\"}\n"),
                    scratch_.write("d.txt", mark + std::string(2 * item_bytes, 'x')),
                    scratch_.write("e.txt", "e" + mark)}));
  EXPECT_EQ(text(), "one|two|" + std::string(2 * item_bytes, 'x') + "|e" + mark + "|");
  EXPECT_THAT(refusal(options({scratch_.write("f.jsonl", "\xff\xfe{")})),
              AllOf(HasSubstr("f.jsonl is UTF-16 text, not JSON lines"), HasSubstr("iconv")));
  EXPECT_THAT(refusal(options({scratch_.write("g.jsonl", mark + "[1]")})), HasSubstr("JSON array"));
}

TEST_F(Tokenize, TheOutputMayBeInTheFolderThatIsRead) {
  std::filesystem::create_directory(scratch_ / "data");
  scratch_.write("data/a.txt", "one");
  auto o = options({scratch_ / "data"});
  o.output = scratch_ / "data/out.tokens";
  o.format = InputFormat::text;
  EXPECT_EQ(tokenize(o).files, 1);
  std::filesystem::remove(o.output);
  scratch_.write("data/a.txt", "ids!");
  o.format = InputFormat::raw_u16;
  o.vocab = 1 << 16;
  EXPECT_EQ(tokenize(o).files, 1);
}

TEST_F(Tokenize, ReadsStandardInput) {
  const int saved = ::dup(STDIN_FILENO);
  const int file = ::open(scratch_.write("in", "from a pipe").c_str(), O_RDONLY);
  ASSERT_EQ(::dup2(file, STDIN_FILENO), STDIN_FILENO);
  tokenize(options({"-"}));
  ::dup2(saved, STDIN_FILENO);
  ::close(file);
  ::close(saved);
  EXPECT_EQ(text(), "from a pipe|");
}

TEST_F(Tokenize, TheOutputDoesNotDependOnThreads) {
  std::string lines, plain;
  for (int i = 0; lines.size() < 5 * item_bytes; ++i) {
    const std::string body(static_cast<std::size_t>(i * 7919 % 3001),
                           static_cast<char>('a' + i % 26));
    lines += "{\"q\": \"" + body + "\", \"a\": \"" + std::to_string(i) + "\"}\n";
    plain += body + (i % 3 == 0 ? "\n" : " ");
  }
  auto lines_options = options({scratch_.write("a.jsonl", lines)});
  lines_options.prompt = "q";
  lines_options.completion = "a";
  auto plain_options =
      options({scratch_.write("a.txt", plain), scratch_.write("b.txt", "x" + lines)});
  for (auto* o : {&lines_options, &plain_options}) {
    std::string expected;
    for (const int threads : {1, 2, 5}) {
      o->threads = threads;
      tokenize(*o);
      const std::string written = contents_of(output_);
      if (threads == 1) expected = written;
      EXPECT_EQ(written, expected) << threads;
    }
  }
  EXPECT_EQ(text(), plain + "|x" + lines + "|");
}

TEST_F(Tokenize, ALineOfJsonMayBeLongButNotEndless) {
  const std::string body(3 * item_bytes + 5, 'x');
  tokenize(options({scratch_.write("a.jsonl", "{\"text\":\"" + body + "\"}\n{\"text\":\"y\"}\n")}));
  EXPECT_EQ(text(), body + "|y|");
  InputFile endless(scratch_.write("b.jsonl", "\n{\"text\":\"" + std::string(3 << 20, 'x')));
  TextSource source([](TextItem) {}, 1 << 20);
  EXPECT_THAT(message_of<Error>([&] { source.add_json_lines(endless); }),
              AllOf(HasSubstr("b.jsonl:2:"), HasSubstr("longer than 1 MiB")));
}

TEST_F(Tokenize, AFailureLeavesTheOldOutput) {
  tokenize(options({scratch_.write("a.txt", "good")}));
  EXPECT_THAT(refusal(options({scratch_.write("b.jsonl", "{")})), HasSubstr("b.jsonl:1:"));
  EXPECT_THAT(refusal(options({scratch_.write("empty.txt", "")})), HasSubstr("no tokens"));
  EXPECT_THAT(refusal(options({scratch_ / "absent"})), HasSubstr("absent"));
  EXPECT_THAT(refusal(options({output_})), HasSubstr("both input and output"));
  auto o = options({scratch_ / "a.txt"});
  o.vocab = 100;
  EXPECT_THAT(refusal(o), HasSubstr("smaller than the tokenizer's"));
  o.tokenizer = nullptr;
  EXPECT_THAT(refusal(o), HasSubstr("needs a tokenizer"));
  EXPECT_EQ(text(), "good|");
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with('.'));
  }
}

}  // namespace
}  // namespace trireme
