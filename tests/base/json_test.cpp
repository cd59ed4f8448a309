// JSON of files: what is refused, by name and place, and in what time.
#include "lib/base/json.hpp"

#include <gmock/gmock.h>

#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refused(const std::string& text) {
  return message_of([&] { parse_json(text); });
}

TEST(Json, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(refused("{\n  \"a\": 1,\n  b\n}"), HasSubstr("line 3, column 3"));
  for (const auto* const text : {"", "{", "[1,]", "NaN", "{\"a\": 1} 2", "\"\xff\"", "1e999"})
    EXPECT_THAT(refused(text), Not(testing::AnyOf(testing::IsEmpty(), HasSubstr("json.exception"))))
        << text;
  EXPECT_THAT(refused("[1, 1e999]"), HasSubstr("at byte 9"));
  EXPECT_EQ(refused(R"({"a": 1, "b": {}, "a": 2})"), "the key 'a' occurs twice");
  EXPECT_EQ(refused(R"({"m": {"v": [0, {"x": {"x": 1}, "x": 2}]}})"),
            "the key 'x' occurs twice in 'm.v.1'");
  EXPECT_EQ(refused(R"([{"a": 1}, {"a": 1}, {"b": {"a": {"a": 1}}}])"), "");
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(refused(nested(64)), "");
  EXPECT_THAT(refused(nested(65)), HasSubstr("nested more than 64 levels deep"));
  EXPECT_THAT(refused(std::string(1'000'000, '[')), HasSubstr("nested more than"));
}

TEST(Json, BuildsWhatTheTextSays) {
  const std::string text =
      R"({"a":[1,-2,2.5,true,null,"\u00e9\n"],"b":{"c":{"d":[]},"e":[{},{"f":18446744073709551615}]}})";
  EXPECT_EQ(parse_json(text), Json::parse(text));
  EXPECT_EQ(parse_json("\xEF\xBB\xBF 7 "), 7);
  EXPECT_EQ(parse_member(text, "a", "f"), Json::parse(text)["a"]);
  EXPECT_EQ(parse_member(text, "b", "f"), Json::parse(text)["b"]);
  EXPECT_TRUE(parse_member(text, "c", "f").is_null());
  EXPECT_THAT(message_of([] { parse_object("[{}]", "f.json"); }),
              HasSubstr("f.json is damaged: it is not a JSON object"));
  EXPECT_EQ(message_of([] { parse_member(R"({"x": [1], "y": 2, "x": 3})", "y", "f.json"); }),
            "f.json is damaged: the key 'x' occurs twice");
}

TEST(Json, NumbersAreOfTheKindAndRangeThatIsAskedFor) {
  const auto taken = [](const char* text) {
    return message_of([&] { integer(parse_json(text), "n", 1, 10); });
  };
  EXPECT_EQ(taken("10"), "");
  EXPECT_EQ(taken("11"), "'n' = 11 is out of range: 1 to 10");
  EXPECT_EQ(taken("0"), "'n' = 0 is out of range: 1 to 10");
  for (const auto* const text : {"-9223372036854775809", "18446744073709551616", "1e1", "2.0",
                                 "2.5", "true", "\"3\"", "null", "[4]"})
    EXPECT_THAT(taken(text), HasSubstr("'n' is not an integer")) << text;
  EXPECT_THAT(message_of([] { integer(parse_json("9223372036854775808"), "n"); }),
              HasSubstr("'n' = 9223372036854775808 is out of range: at least 0"));
  EXPECT_EQ(integer(parse_json("9223372036854775807"), "n"), 9223372036854775807);
  EXPECT_EQ(real(parse_json("3"), "x"), 3);
  EXPECT_EQ(message_of([] { real(parse_json("\"\\u001b[2J\xC2\x9B\""), "x"); }),
            "'x' is not a number: \"\\u001b[2J\\u009b\"");
}

// 0.3 s. Whoever looks through all members for each of them does not end within the time of a test.
TEST(Json, ManyMembersTakeTimeInProportion) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("\"t{}\":{{\"s\":[1]}},", i);
  text.back() = '}';
  EXPECT_EQ(parse_json(text).size(), 200'000);
  EXPECT_TRUE(parse_member(text, "t7", "f").is_object());
}

}  // namespace
}  // namespace trireme
