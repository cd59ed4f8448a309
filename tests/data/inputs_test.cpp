#include "lib/data/inputs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "lib/base/error.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

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
              HasSubstr("holds no files"));
  EXPECT_THROW(expand_inputs({}), Error);
  EXPECT_THAT(message_of<Error>([&] { InputFile file(s / "absent"); }), HasSubstr("absent"));
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
