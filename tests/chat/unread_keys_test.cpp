#include "lib/chat/unread_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> unread(const char* line) {
  return unread_keys(nlohmann::json::parse(line), [](auto key) { return key == "read"; });
}

TEST(UnreadKeys, AreNoneInTheFormsThatAreRead) {
  for (const char* line :
       {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
           {"type": "text", "text": "b"}], "weight": 0, "tool_calls": [{"id": "1", "type": "function",
           "function": {"name": "f", "arguments": {"any": {"thing": 1}}}}]},
           {"role": "tool", "tool_call_id": "1", "content": "c"}], "tools": [{"any": "thing"}]})",
        R"({"conversations": [{"from": "human", "value": "a", "train": false}], "system": "s"})",
        R"({"prompt": "a", "chosen": {"role": "assistant", "content": "b"}, "rejected": "c"})",
        R"({"prompt": [{"role": "user", "content": "a"}], "completion": "b", "label": true})", "[]",
        "7"})
    EXPECT_THAT(unread(line), IsEmpty()) << line;
}

TEST(UnreadKeys, HaveTheirPlace) {
  EXPECT_THAT(
      unread(R"({"messages": [{"role": "assistant", "content": "b", "reasoning_content": "t"},
                         {"role": "assistant", "content": "d", "reasoning_content": "u", "read": 1}],
                         "chat_template_kwargs": {"any": "thing"},
                         "source": "x", "empty": "", "none": null, "nothing": []})"),
      UnorderedElementsAre("messages[].reasoning_content", "source", "chat_template_kwargs.any"));
  EXPECT_THAT(unread(R"({"chosen": {"role": "assistant", "content": "b", "score": 0}})"),
              ElementsAre("chosen[].score"));
  EXPECT_THAT(unread(R"({"prompt": [{"role": "user", "content": [{"type": "text", "text": "a",
                         "cache": true}], "tool_calls": [{"index": 0, "function": {"name": "f",
                         "arguments": {}, "strict": true}}]}]})"),
              UnorderedElementsAre("prompt[].content[].cache", "prompt[].tool_calls[].index",
                                   "prompt[].tool_calls[].function.strict"));
}

}  // namespace
}  // namespace trireme
