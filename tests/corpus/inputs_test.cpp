#include "lib/corpus/inputs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lib/base/error.hpp"
#include "lib/corpus/not_text.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Inputs, FilesGlobsAndFoldersEachFileOnce) {
  const ScratchFolder s;
  const std::string b = s.write("b.txt", ""), a = s.write("a.txt", ""), c = s.write("c.md", "");
  const std::string deep = s.write("folder/under/d.txt", ""), e = s.write("folder/e", "");
  s.write("folder/.hidden", "");
  s.write("folder/.git/f", "");
  EXPECT_THAT(expand_inputs({c, a}), ElementsAre(c, a));
  EXPECT_THAT(expand_inputs({s / "*.txt"}), ElementsAre(a, b));
  EXPECT_THAT(expand_inputs({s / "[b-c].*", s / "?.txt"}), ElementsAre(b, c, a));
  EXPECT_THAT(expand_inputs({s / "folder", "-"}), ElementsAre(e, deep, "-"));
}

TEST(Inputs, ANameWithGlobCharactersIsAFileFirst) {
  const ScratchFolder s;
  const std::string odd = s.write("what[1]?.txt", "");
  EXPECT_THAT(expand_inputs({odd}), ElementsAre(odd));
}

TEST(Inputs, SaysWhatIsNotThere) {
  const ScratchFolder s;
  EXPECT_THAT(message_of<Error>([&] { expand_inputs({s / "absent"}); }), HasSubstr("absent"));
  EXPECT_THAT(message_of<Error>([&] { expand_inputs({s / "*.none"}); }), HasSubstr("*.none"));
  EXPECT_THAT(message_of<Error>([&] { expand_inputs({s.path().string()}); }),
              HasSubstr("contains no files"));
  EXPECT_THROW(expand_inputs({}), Error);
  EXPECT_THAT(message_of<Error>([&] { InputFile file(s / "absent"); }), HasSubstr("absent"));
}

TEST(Inputs, WhatIsNoTextIsNamedWithWhatMakesTextOfIt) {
  const auto refusal = [](const std::string& beginning, const std::string& name = "a.txt") {
    return message_of<Error>([&] { require_text(beginning, name); });
  };
  EXPECT_EQ(refusal("plain, na\u00efve \u65e5\u672c\n"), "");
  EXPECT_EQ(refusal("[a] title, \"x\"\n"), "");
  EXPECT_EQ(refusal("a,b\n1,2\n"), "");
  for (const auto* table : {"a.csv", "b.CSV"})
    EXPECT_THAT(refusal("text,n\nx,1\n", table),
                AllOf(HasSubstr("table"), HasSubstr("csv.DictReader"), HasSubstr("--field")));
  EXPECT_THAT(refusal("text\tn\n", "a.tsv"), HasSubstr("delimiter=\"\\t\""));
  EXPECT_THAT(refusal("\n[ {\"text\": 1}]"),
              AllOf(HasSubstr("JSON array"), HasSubstr("jq -c '.[]' a.txt")));
  EXPECT_THAT(refusal("\x1f\x8b\x08 and more"),
              HasSubstr("compressed with gzip, not text: decompress it first, for example"));
  EXPECT_THAT(refusal("[1, 2]", "a.json"), HasSubstr("JSON array"));
  EXPECT_THAT(refusal("{\"text\": 1}", "a.json"), HasSubstr("--from jsonl"));
  // One letter in a thousand is enough; some damaged bytes in a text of UTF-8 are not.
  const std::string line =
                        "Stra\xdf"
                        "e, Gr\xfc\xdf"
                        "e\n",
                    plain(1000, 'a');
  EXPECT_THAT(refusal(plain + line), HasSubstr("iconv -f ISO-8859-1 -t UTF-8 a.txt"));
  EXPECT_THAT(refusal("one\n" + plain + "\n" + line), HasSubstr("in line 3, at byte 1009"));
  EXPECT_THAT(
      refusal("one\ntwo" + std::string(500, '\xfe') + plain),
      HasSubstr("500 of its first 1507 bytes are not UTF-8, the first in line 2, at byte 7"));
  EXPECT_THAT(refusal("\x93quoted\x94 " + plain), HasSubstr("iconv -f WINDOWS-1252"));
  EXPECT_EQ(refusal("\u65e5\u672c\u65e5\u672c\u65e5\u672c\u65e5\u672c\xff " + plain), "");
  // Cut within a character, as the first bytes of a longer text are.
  EXPECT_EQ(refusal("plain \xe6\x97"), "");
}

TEST(InputFile, UnpacksWhatIsCompressed) {
  const ScratchFolder s;
  std::string text;
  for (int i = 0; i < 300000; ++i) text += std::to_string(i * i % 1000);
  s.write("a", text);
  ASSERT_EQ(
      std::system(fmt::format("gzip -k {0}/a && cp {0}/a.gz {0}/b && truncate -s 5000 {0}/b && "
                              "echo not one > {0}/c.gz",
                              s.path().string())
                      .c_str()),
      0);
  const auto read = [&](const char* name, Packed packed) {
    InputFile file(s / name, packed);
    std::string all;
    while (file.append_to(all, 100000) == 100000) {
    }
    return all;
  };
  EXPECT_EQ(read("a.gz", Packed::unpacked), text);
  EXPECT_EQ(read("a", Packed::unpacked), text);
  EXPECT_NE(read("a.gz", Packed::as_is), text);
  EXPECT_EQ(read("c.gz", Packed::unpacked), "not one\n");
  EXPECT_THAT(message_of<Error>([&] { read("b", Packed::unpacked); }),
              HasSubstr("b cannot be unpacked: gzip failed"));
  s.write("d.parquet", "PAR1 and more");
  EXPECT_THAT(message_of<Error>([&] { read("d.parquet", Packed::unpacked); }),
              testing::AnyOf(HasSubstr("pyarrow"), HasSubstr("cannot be unpacked")));
  { InputFile unread(s / "a.gz", Packed::unpacked); }  // its program ends with it
  EXPECT_EQ(unpacked_name("a.jsonl.gz"), "a.jsonl");
  EXPECT_EQ(unpacked_name("a.txt"), "a.txt");
}

TEST(InputFile, ReadsAsAStreamAndAnywhere) {
  const ScratchFolder s;
  std::string text;
  for (int i = 0; i < 700000; ++i) text += static_cast<char>('a' + i % 997 * 31 % 23);
  text += text;  // beyond the buffer's megabyte
  InputFile file(s.write("a", text));
  EXPECT_EQ(file.size(), static_cast<std::int64_t>(text.size()));
  std::string read = "x";
  EXPECT_EQ(file.append_to(read, 1000000), 1000000U);
  EXPECT_EQ(file.append_to(read, 1000000), text.size() - 1000000);
  EXPECT_EQ(file.append_to(read, 1000000), 0U);
  EXPECT_EQ(read, "x" + text);

  std::string piece(5000, '\0');
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{1048570}, std::size_t{3}, text.size() - 5000}) {
    file.read_at(static_cast<std::int64_t>(at), std::as_writable_bytes(std::span(piece)));
    EXPECT_EQ(piece, text.substr(at, 5000));
  }
  EXPECT_THROW(file.read_at(static_cast<std::int64_t>(text.size()) - 4999,
                            std::as_writable_bytes(std::span(piece))),
               Error);
}

}  // namespace
}  // namespace trireme
