#include "lib/base/quoted.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Quoted, IsOneLineOfPrintableCharacters) {
  EXPECT_EQ(quoted(""), "");
  EXPECT_EQ(quoted("a\n\tb\\c"), "a\\n\\tb\\\\c");
  EXPECT_EQ(quoted("na\u00efve \u65e5\u672c \U0001f642"), "na\u00efve \u65e5\u672c \U0001f642");
  EXPECT_EQ(quoted(std::string_view("\x1b[31m\x7f\r\0", 8)), "\\x1b[31m\\x7f\\x0d\\x00");
  EXPECT_EQ(quoted("\u0085"), "\\xc2\\x85");  // a control character of two bytes
  // An end of line, directions; their neighbours stay.
  EXPECT_EQ(quoted("\u2028\u202e\u2066"), "\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6");
  EXPECT_EQ(quoted("\u2027\u202f\u2065\u206a"), "\u2027\u202f\u2065\u206a");
  // What is no UTF-8: alone, too long, a surrogate, cut at the end.
  EXPECT_EQ(quoted("\xff|\xc0\xaf|\xed\xa0\x80|\xe6\x97"),
            "\\xff|\\xc0\\xaf|\\xed\\xa0\\x80|\\xe6\\x97");
}

TEST(Quoted, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(quoted("abcd", 4), "abcd");
  EXPECT_EQ(quoted("abcde", 4), "abcd... (5 bytes in all)");
  EXPECT_EQ(quoted("ab\u65e5", 4), "ab... (5 bytes in all)");
  EXPECT_EQ(quoted("abc\n", 4), "abc... (4 bytes in all)");
  EXPECT_EQ(quoted(std::string(1000000, 'x')).size(),
            400 + std::string("... (1000000 bytes in all)").size());
}

TEST(Quoted, MessagesKeepTheirLines) {
  EXPECT_EQ(without_controls("a\nb\n c\n"), "a\n  b\n c\n");
  EXPECT_EQ(without_controls("a\n  C:\\x \x1b]0;t\x07 \xff\u2028"),
            "a\n  C:\\x \\x1b]0;t\\x07 \\xff\\xe2\\x80\\xa8");
}

}  // namespace
}  // namespace trireme
