#include "lib/base/escaped.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Quoted, IsOneLineOfPrintableCharacters) {
  EXPECT_EQ(escaped(""), "");
  EXPECT_EQ(escaped("a\n\tb\\c"), "a\\n\\tb\\\\c");
  EXPECT_EQ(escaped("na\u00efve \u65e5\u672c \U0001f642"), "na\u00efve \u65e5\u672c \U0001f642");
  EXPECT_EQ(escaped(std::string_view("\x1b[31m\x7f\r\0", 8)), "\\x1b[31m\\x7f\\x0d\\x00");
  EXPECT_EQ(escaped("\u0085"), "\\xc2\\x85");  // a control character of two bytes
  // An end of line, directions; their neighbours stay.
  EXPECT_EQ(escaped("\u2028\u202e\u2066"), "\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6");
  EXPECT_EQ(escaped("\u2027\u202f\u2065\u206a"), "\u2027\u202f\u2065\u206a");
  // What is no UTF-8: alone, too long, a surrogate, cut at the end.
  EXPECT_EQ(escaped("\xff|\xc0\xaf|\xed\xa0\x80|\xe6\x97"),
            "\\xff|\\xc0\\xaf|\\xed\\xa0\\x80|\\xe6\\x97");
}

TEST(Quoted, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(escaped("abcd", 4), "abcd");
  EXPECT_EQ(escaped("abcde", 4), "abcd... (5 bytes in all)");
  EXPECT_EQ(escaped("ab\u65e5", 4), "ab... (5 bytes in all)");
  EXPECT_EQ(escaped("abc\n", 4), "abc... (4 bytes in all)");
  EXPECT_EQ(escaped(std::string(1000000, 'x')).size(),
            400 + std::string("... (1000000 bytes in all)").size());
}

TEST(Quoted, MessagesKeepTheirLines) {
  EXPECT_EQ(without_controls("a\n  C:\\x \x1b]0;t\x07 \xff\u2028"),
            "a\n  C:\\x \\x1b]0;t\\x07 \\xff\\xe2\\x80\\xa8");
}

}  // namespace
}  // namespace trireme
