#include "lib/chat/messages.hpp"

#include <functional>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

const std::string& text_in(const Json& object, const char* field, std::size_t number) {
  const auto found = object.find(field);
  require(found != object.end() && found->is_string(),
          "message {} has no text in \"{}\": write a message as {{\"role\": \"user\", \"content\": "
          "..}} or, in ShareGPT's form, as {{\"from\": \"human\", \"value\": ..}}",
          number, field);
  return found->get_ref<const std::string&>();
}

// Returns the list in a field. Returns an empty list if the field is missing or null.
const Json& list_in(const Json& object, const char* field, const std::string& whose) {
  static const Json none = Json::array();
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return none;
  require(found->is_array(), "{} has \"{}\" that are not a list", whose, field);
  return *found;
}

// Returns the text in a field. Returns an empty text if the field is missing or not a text.
std::string id_in(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Reads {"name": .., "arguments": ..}. dumped() returns the text of arguments that are not a
// string. A string must be JSON and is kept. `whose` is the name of the call in error messages.
ToolCall call_of(const Json& call, const std::string& whose,
                 const std::function<const std::string&()>& dumped, std::string id) {
  const bool whole = call.is_object() && call.contains("arguments") && call.contains("name") &&
                     call.at("name").is_string();
  require(whole, "{} is not {{\"name\": \"..\", \"arguments\": {{..}}}}", whose);
  const auto& arguments = call.at("arguments");
  try {
    if (arguments.is_string()) parse_json(arguments.get_ref<const std::string&>());
  } catch (const Error& e) {
    fail("{} has arguments that are not JSON ({})", whose, e.what());
  }
  return {call.at("name").get<std::string>(),
          arguments.is_string() ? arguments.get<std::string>() : dumped(), std::move(id)};
}

std::vector<ToolCall> calls_in(const Json& message, const JsonPlace& place, std::size_t number,
                               Texts& texts) {
  const auto& list = list_in(message, "tool_calls", fmt::format("message {}", number));
  std::vector<ToolCall> calls;
  for (const auto& one : list) {
    auto at = place;
    at.insert(at.end(), {"tool_calls", std::to_string(calls.size())});
    const bool inner = one.is_object() && one.contains("function");
    if (inner) at.emplace_back("function");
    at.emplace_back("arguments");
    const auto& call = inner ? one.at("function") : one;
    calls.push_back(call_of(
        call, fmt::format("message {}: call {} of its \"tool_calls\"", number, calls.size() + 1),
        [&]() -> const std::string& { return texts.at(at); }, id_in(one, "id")));
  }
  return calls;
}

std::string content_in(const Json& message, const char* field, std::size_t number, bool calls) {
  const auto found = message.find(field);
  if (calls && (found == message.end() || found->is_null())) return {};
  if (found == message.end() || !found->is_array()) return text_in(message, field, number);
  std::string all;
  for (const auto& part : *found) {
    require(part.is_object() && part.contains("type") && part.at("type") == "text",
            "message {} has a part that is not text: only text is supported", number);
    all += text_in(part, "text", number);
  }
  return all;
}

constexpr std::string_view call_role = "function_call";

// Returns the role for a role name of ShareGPT, LLaMA-Factory or OpenAI.
std::string role_of(const std::string& from) {
  static const std::map<std::string, std::string> roles{
      {"human", "user"},        {"gpt", "assistant"},
      {"chatgpt", "assistant"}, {std::string(call_role), "assistant"},
      {"observation", "tool"},  {"developer", "system"}};
  const auto found = roles.find(from);
  return found == roles.end() ? from : found->second;
}

// Returns the calls in LLaMA-Factory's content of a message with the role function_call: the JSON
// text {"name": .., "arguments": ..}, or a list of such objects.
std::vector<ToolCall> calls_of_text(const std::string& text, std::size_t number) {
  Json all;
  try {
    all = parse_json(text);
  } catch (const Error& e) {
    fail("message {} has the role {}, but its content is not JSON ({})", number, call_role,
         e.what());
  }
  const auto arguments = python_json(text, [](const JsonPlace& p) {
    return !p.empty() && p.size() <= 2 && p.back() == "arguments";
  });
  std::vector<ToolCall> calls;
  const auto add = [&](const Json& call, JsonPlace place) {
    place.emplace_back("arguments");
    calls.push_back(
        call_of(call, fmt::format("message {}: call {} of its content", number, calls.size() + 1),
                [&]() -> const std::string& { return arguments.at(place); }, {}));
  };
  if (!all.is_array()) add(all, {});
  for (std::size_t i = 0; all.is_array() && i < all.size(); ++i) add(all[i], {std::to_string(i)});
  return calls;
}

// Returns whether the message is trained on, as "weight" or "train" say. Messages of other roles
// than the assistant are never trained on.
bool is_learnt(const Json& message, const std::string& role, std::size_t number) {
  bool learnt = true;
  if (const auto found = message.find("weight"); found != message.end() && !found->is_null()) {
    require(found->is_number() && (*found == 0 || *found == 1),
            "message {} has a \"weight\" that is neither 0 nor 1", number);
    learnt = *found == 1;
  }
  if (const auto found = message.find("train"); found != message.end() && !found->is_null()) {
    require(found->is_boolean(), "message {} has \"train\" that is neither true nor false", number);
    require(
        role == "assistant" || !found->get<bool>(),
        "message {} has \"train\": true, but only messages of the assistant are trained on, and "
        "its role is {}",
        number, role);
    learnt = learnt && found->get<bool>();
  }
  return learnt;
}

}  // namespace

std::vector<std::string> tools_in(const Json& object, Texts& texts) {
  const auto found = object.find("tools");
  const bool is_text = found != object.end() && found->is_string();
  Json parsed = Json::array();
  std::map<JsonPlace, std::string> of_text;
  if (is_text && *found != "") {
    const auto& text = found->get_ref<const std::string&>();
    try {
      parsed = parse_json(text);
    } catch (const Error& e) {
      fail("\"tools\" is a text that is not JSON ({})", e.what());
    }
    require(parsed.is_array(), "\"tools\" is a JSON text, but not of a list");
    of_text = python_json(text, [](const JsonPlace& p) { return p.size() == 1; });
  }
  const auto& list = is_text ? parsed : list_in(object, "tools", "the conversation");
  std::vector<std::string> tools;
  for (const auto& one : list) {
    require(one.is_object(), "element {} of \"tools\" is not a JSON object", tools.size() + 1);
    const auto number = std::to_string(tools.size());
    tools.push_back(is_text ? of_text.at({number}) : texts.at({"tools", number}));
  }
  return tools;
}

Message message_of(const Json& message, const JsonPlace& place, std::size_t number, Texts& texts) {
  require(message.is_object(), "message {} is not a JSON object", number);
  const bool shared = message.contains("from") && !message.contains("role");
  auto calls = calls_in(message, place, number, texts);
  auto content = content_in(message, shared ? "value" : "content", number, !calls.empty());
  auto role = text_in(message, shared ? "from" : "role", number);
  if (role == call_role) {
    calls = calls_of_text(content, number);
    content.clear();
  }
  if (shared || role == "developer" || role == call_role) role = role_of(role);
  const bool learnt = is_learnt(message, role, number);
  return {std::move(role), std::move(content), std::move(calls), {}, id_in(message, "tool_call_id"),
          learnt};
}

Conversation messages_in(const Json& list, const char* name, Texts& texts) {
  Conversation all;
  for (const auto& message : list)
    all.push_back(message_of(message, {name, std::to_string(all.size())}, all.size() + 1, texts));
  return all;
}

}  // namespace trireme
