#include "lib/data/conversation.hpp"

#include <map>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"

namespace trireme {

namespace {

const std::string& text_in(const Json& object, const char* field, std::size_t number) {
  const auto found = object.find(field);
  require(found != object.end() && found->is_string(),
          "message {} has no text in \"{}\": a message is {{\"role\": \"user\", \"content\": ..}}, "
          "in ShareGPT's form {{\"from\": \"human\", \"value\": ..}}",
          number, field);
  return found->get_ref<const std::string&>();
}

std::string content_in(const Json& message, const char* field, std::size_t number) {
  const auto calls = message.find("tool_calls");
  require(calls == message.end() || calls->is_null() || calls->empty(),
          "message {} has \"tool_calls\", which are not supported: write them into its content",
          number);
  const auto found = message.find(field);
  if (found == message.end() || !found->is_array()) return text_in(message, field, number);
  std::string all;
  for (const auto& part : *found) {
    require(part.is_object() && part.contains("type") && part.at("type") == "text",
            "message {} has a part that is no text, which is not supported", number);
    all += text_in(part, "text", number);
  }
  return all;
}

// ShareGPT's names of roles.
std::string role_of(const std::string& from) {
  static const std::map<std::string, std::string> roles{
      {"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"observation", "tool"}};
  const auto found = roles.find(from);
  return found == roles.end() ? from : found->second;
}

}  // namespace

Conversation conversation_of(const Json& object) {
  require(object.is_object(), "this JSON is not an object: each line must be one");
  const bool shared = !object.contains("messages") && object.contains("conversations");
  const auto* const list = shared ? "conversations" : "messages";
  const auto found = object.find(list);
  require(
      found != object.end() && found->is_array(),
      "there is no list \"messages\": a line of a chat is {{\"messages\": [{{\"role\": \"user\", "
      "\"content\": ..}}, ..]}}");
  Conversation all;
  for (const auto& message : *found) {
    const auto number = all.size() + 1;
    require(message.is_object(), "message {} is no object", number);
    if (shared)
      all.push_back(
          {role_of(text_in(message, "from", number)), content_in(message, "value", number)});
    else
      all.push_back({text_in(message, "role", number), content_in(message, "content", number)});
  }
  return all;
}

}  // namespace trireme
