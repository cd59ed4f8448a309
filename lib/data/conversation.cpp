#include "lib/data/conversation.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/data/python_json.hpp"

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

// Empty: not there, null, or without elements.
const Json& list_in(const Json& object, const char* field, const std::string& whose) {
  static const Json none = Json::array();
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return none;
  require(found->is_array(), "{} has \"{}\" that are no list", whose, field);
  return *found;
}

// The values whose JSON is written into the text; looked for once, and where there are some.
class Texts {
 public:
  explicit Texts(std::string_view text) : text_(text) {}
  const std::string& at(const JsonPlace& place) {
    if (!all_)
      all_ = python_json(text_, [](const JsonPlace& p) {
        return (p.size() == 2 && p[0] == "tools") ||
               (p.size() >= 5 && p[2] == "tool_calls" && p.back() == "arguments");
      });
    return all_->at(place);
  }

 private:
  std::string_view text_;
  std::optional<std::map<JsonPlace, std::string>> all_;
};

std::vector<ToolCall> calls_in(const Json& message, const JsonPlace& place, Texts& texts) {
  const auto number = std::stoul(place[1]) + 1;
  const auto& list = list_in(message, "tool_calls", fmt::format("message {}", number));
  std::vector<ToolCall> calls;
  for (const auto& one : list) {
    auto at = place;
    at.insert(at.end(), {"tool_calls", std::to_string(calls.size())});
    const bool inner = one.is_object() && one.contains("function");
    if (inner) at.emplace_back("function");
    at.emplace_back("arguments");
    const auto& call = inner ? one.at("function") : one;
    const bool whole = call.is_object() && call.contains("arguments") && call.contains("name") &&
                       call.at("name").is_string();
    require(whole,
            "message {}: call {} of its \"tool_calls\" is not {{\"function\": {{\"name\": "
            "\"..\", \"arguments\": {{..}}}}}}",
            number, calls.size() + 1);
    const auto& arguments = call.at("arguments");
    try {
      if (arguments.is_string()) parse_json(arguments.get_ref<const std::string&>());
    } catch (const Error& e) {
      fail("message {}: the arguments of its call {} are no JSON ({})", number, calls.size() + 1,
           e.what());
    }
    calls.push_back({call.at("name").get<std::string>(),
                     arguments.is_string() ? arguments.get<std::string>() : texts.at(at)});
  }
  return calls;
}

std::vector<std::string> tools_in(const Json& object, Texts& texts) {
  const auto& list = list_in(object, "tools", "the conversation");
  std::vector<std::string> tools;
  for (const auto& one : list) {
    require(one.is_object(), "element {} of \"tools\" is no object", tools.size() + 1);
    tools.push_back(texts.at({"tools", std::to_string(tools.size())}));
  }
  return tools;
}

std::string content_in(const Json& message, const char* field, std::size_t number, bool calls) {
  const auto found = message.find(field);
  if (calls && (found == message.end() || found->is_null())) return {};
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

void add_messages(const Json& list, const char* name, bool shared, Texts& texts,
                  Conversation& all) {
  std::size_t i = 0;
  for (const auto& message : list) {
    const auto number = i + 1;
    require(message.is_object(), "message {} is no object", number);
    auto calls = calls_in(message, {name, std::to_string(i)}, texts);
    auto content = content_in(message, shared ? "value" : "content", number, !calls.empty());
    auto role = text_in(message, shared ? "from" : "role", number);
    all.push_back({shared ? role_of(role) : role, std::move(content), std::move(calls)});
    ++i;
  }
}

void add_tools(const Json& object, Texts& texts, Conversation& all) {
  auto tools = tools_in(object, texts);
  require(tools.empty() || !all.empty(), "the conversation has tools and no message");
  if (!tools.empty()) all[0].tools = std::move(tools);
}

// The messages of "prompt" and of the answer.
Conversation answered(const Json& object, const char* answer, Texts& texts) {
  Conversation all;
  for (const char* name : {"prompt", answer}) {
    const auto found = object.find(name);
    if (found == object.end() && name != answer) continue;
    require(found != object.end() && found->is_array(),
            "there is no list \"{}\": with --chat a line of --preference is {{\"chosen\": "
            "[{{\"role\": \"user\", \"content\": ..}}, ..], \"rejected\": [..]}}",
            name);
    add_messages(*found, name, false, texts, all);
  }
  add_tools(object, texts, all);
  return all;
}

std::size_t last_answer(const Conversation& c, const char* name) {
  for (auto i = c.size(); i-- > 0;)
    if (c[i].role == "assistant") return i;
  fail("\"{}\" has no answer of an assistant", name);
}

}  // namespace

ConversationPair conversation_pair_of(const Json& object, std::string_view text) {
  require(object.is_object(), "this JSON is not an object: each line must be one");
  Texts texts(text);
  ConversationPair pair{answered(object, "chosen", texts), answered(object, "rejected", texts), 0};
  require(pair.chosen != pair.rejected, "\"chosen\" and \"rejected\" are the same");
  const auto differ = std::ranges::mismatch(pair.chosen, pair.rejected).in1;
  pair.learnt_from =
      std::min({static_cast<std::size_t>(differ - pair.chosen.begin()),
                last_answer(pair.chosen, "chosen"), last_answer(pair.rejected, "rejected")});
  return pair;
}

Conversation conversation_of(const Json& object, std::string_view text) {
  require(object.is_object(), "this JSON is not an object: each line must be one");
  const bool shared = !object.contains("messages") && object.contains("conversations");
  const auto* const list = shared ? "conversations" : "messages";
  const auto found = object.find(list);
  require(
      found != object.end() && found->is_array(),
      "there is no list \"messages\": a line of a chat is {{\"messages\": [{{\"role\": \"user\", "
      "\"content\": ..}}, ..]}}");
  Conversation all;
  Texts texts(text);
  add_messages(*found, list, shared, texts, all);
  add_tools(object, texts, all);
  return all;
}

}  // namespace trireme
