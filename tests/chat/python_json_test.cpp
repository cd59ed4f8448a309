#include "lib/chat/python_json.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

std::string dumped(std::string_view text) {
  return python_json(text, [](const JsonPlace& place) { return place.empty(); }).at({});
}

// As json.dumps(json.loads(text), ensure_ascii=False) gives them.
TEST(PythonJson, IsThatOfJsonDumps) {
  EXPECT_EQ(dumped(R"( {"b":[1,-2,true,null],"a":{},"c":[[],{"d":"e"}]} )"),
            R"({"b": [1, -2, true, null], "a": {}, "c": [[], {"d": "e"}]})");
  EXPECT_EQ(dumped(R"("\u00e4\u007f\/\"\\\n\r\t\f\b\u0001")"),
            "\"\u00e4\x7f/\\\"\\\\\\n\\r\\t\\f\\b\\u0001\"");
  EXPECT_EQ(dumped("[1.0, 1e5, 1E15, 1e16, 12345678901234567.0, 0.0001, 0.00001, -0.0, -0, 0.1]"),
            "[1.0, 100000.0, 1000000000000000.0, 1e+16, 1.2345678901234568e+16, 0.0001, 1e-05, "
            "-0.0, 0, 0.1]");
  EXPECT_EQ(
      dumped("[1.5e300, 2.5e-7, 5e-324, 18446744073709551615, 123456789012345678901234567890]"),
      "[1.5e+300, 2.5e-07, 5e-324, 18446744073709551615, 123456789012345678901234567890]");
  EXPECT_EQ(dumped("3"), "3");
}

TEST(PythonJson, FindsPlaces) {
  const auto found =
      python_json(R"({"a": [{"b": 1}, {"c": 2, "b": [3,4]}], "b": 5, "d": {"b": {"b": 6}}})",
                  [](const JsonPlace& place) { return !place.empty() && place.back() == "b"; });
  EXPECT_EQ(found, (std::map<JsonPlace, std::string>{{{"a", "0", "b"}, "1"},
                                                     {{"a", "1", "b"}, "[3, 4]"},
                                                     {{"b"}, "5"},
                                                     {{"d", "b"}, R"({"b": 6})"}}));
}

TEST(PythonJson, IsIndentedAsThatOfJsonDumps) {
  EXPECT_EQ(indented_json(R"({"a": {}, "b": [], "c": [1, {"d": "e, [\\\"f: {"}], "g": null})", 2),
            "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"e, "
            "[\\\\\\\"f: {\"\n    }\n  ],\n  \"g\": null\n}");
  EXPECT_EQ(indented_json("{}", 4), "{}");
  EXPECT_EQ(indented_json("[-1.5]", 1), "[\n -1.5\n]");
  EXPECT_EQ(python_json_text("a\"\n\x7f"), "\"a\\\"\\n\x7f\"");
}

}  // namespace
}  // namespace trireme
