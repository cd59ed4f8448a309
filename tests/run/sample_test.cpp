#include "lib/run/sample.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ModelText, IsOneLineOfPrintableCharacters) {
  EXPECT_EQ(in_one_line("a\n\tb\\c"), "a\\n\\tb\\\\c");
  EXPECT_EQ(in_one_line("na\u00efve \u65e5\u672c \U0001f642"),
            "na\u00efve \u65e5\u672c \U0001f642");
  EXPECT_EQ(in_one_line("\x1b[31m\x7f"), "\\x1b[31m\\x7f");
  EXPECT_EQ(in_one_line("\u0085"), "\\xc2\\x85");  // a control character of two bytes
  // What is no UTF-8: alone, too long, a surrogate, cut at the end.
  EXPECT_EQ(in_one_line("\xff|\xc0\xaf|\xed\xa0\x80|\xe6\x97"),
            "\\xff|\\xc0\\xaf|\\xed\\xa0\\x80|\\xe6\\x97");
}

TEST(ModelText, IsDueWithEvaluationsOrByItsOwnCount) {
  EvaluateConfig e;
  e.every_steps = 10;
  EXPECT_FALSE(sample_is_due(e, 10, 100)) << "no prompt";
  e.sample_prompt = "a";
  EXPECT_TRUE(sample_is_due(e, 10, 100));
  EXPECT_FALSE(sample_is_due(e, 0, 100));
  e.sample_every = 7;
  EXPECT_FALSE(sample_is_due(e, 10, 100));
  EXPECT_TRUE(sample_is_due(e, 14, 100));
  EXPECT_TRUE(sample_is_due(e, 100, 100)) << "the last step";
}

}  // namespace
}  // namespace trireme
