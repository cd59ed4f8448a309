#include "lib/keys/value.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "lib/base/error.hpp"

namespace trireme {

TEST(Value, NumbersAreShortAndReadBack) {
  EXPECT_EQ(number_text(6e-4), "6e-4");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(1e5), "1e5");
  EXPECT_EQ(number_text(1.5e-10), "1.5e-10");
  EXPECT_EQ(number_text(1e300), "1e300");
  EXPECT_EQ(number_text(0), "0");
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 10000; ++i) {
    const double x = std::pow(10.0, exponent(random));
    double back = 0;
    ASSERT_TRUE(read_number(number_text(x), back));
    ASSERT_EQ(back, x) << number_text(x);
  }
}

TEST(Value, WholeNumbers) {
  std::int64_t n = 0;
  EXPECT_TRUE(read_number("1e5", n));
  EXPECT_EQ(n, 100000);
  EXPECT_TRUE(read_number("9_007_199_254_740_993", n));
  EXPECT_EQ(n, 9007199254740993);
  EXPECT_TRUE(read_number("-3", n));
  EXPECT_EQ(n, -3);
  for (const auto* wrong : {"", "_1", "1_", "1__0", "1.5", "1e-3", "9e99", "0x10", "1 ", "+-1"}) {
    EXPECT_FALSE(read_number(wrong, n)) << wrong;
  }
}

TEST(Value, TextsAreQuotedForToml) {
  EXPECT_EQ(to_toml(std::string("a\"b\\c\n\x7f")), R"("a\"b\\c\n\u007F")");
  EXPECT_EQ(to_toml(std::string("${x} $y")), "\"$${x} $y\"");
  EXPECT_EQ(to_toml(std::string("${x}\t"), TextIs::literal), R"("${x}\t")");
  EXPECT_EQ(to_toml(std::vector<std::string>{"a", "b"}), "[\"a\", \"b\"]");
  EXPECT_EQ(to_toml(Automatic{}), "\"auto\"");
}

TEST(Value, Environment) {
  ASSERT_EQ(setenv("TRIREME_TEST_A", "x${y", 1), 0);
  EXPECT_EQ(expand_environment("${TRIREME_TEST_A}/${TRIREME_TEST_A}"), "x${y/x${y");
  EXPECT_EQ(expand_environment("$ $$ $${a}"), "$ $$ ${a}");
  EXPECT_THROW(expand_environment("${"), Error);
  EXPECT_THROW(expand_environment("${}"), Error);
  EXPECT_THROW(expand_environment("${TRIREME_TEST_UNDEFINED}"), Error);
}

TEST(Value, Utf8) {
  EXPECT_TRUE(is_text("plain"));
  EXPECT_TRUE(is_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const std::string& wrong :
       {std::string(1, '\0'), std::string("\x80"), std::string("\xc0\xaf"), std::string("\xe2\x82"),
        std::string("\xed\xa0\x80"), std::string("\xf4\x90\x80\x80"), std::string("\xff")}) {
    EXPECT_FALSE(is_text(wrong));
  }
}

}  // namespace trireme
