#include "lib/chat/messages.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

const std::string& text_in(const OrderedJson& object, const char* field, std::size_t number) {
  const auto found = object.find(field);
  require(found != object.end() && found->is_string(),
          "message {} has no text in \"{}\": write a message as {{\"role\": \"user\", \"content\": "
          "..}} or, in ShareGPT's form, as {{\"from\": \"human\", \"value\": ..}}",
          number, field);
  return found->get_ref<const std::string&>();
}

// Parses a JSON text inside JSON. `what` begins the error message.
OrderedJson parsed(const std::string& text, const std::string& what) {
  try {
    return parse_ordered_json(text);
  } catch (const Error& e) {
    fail("{} that is not JSON ({})", what, e.what());
  }
}

// Returns {"name": .., "arguments": ..} as a chat template sees it. `whose` is the name of the call
// in error messages.
OrderedJson function_of(const OrderedJson& call, const std::string& whose) {
  const bool whole = call.is_object() && call.contains("arguments") && call.contains("name") &&
                     call.at("name").is_string();
  require(whole, "{} is not {{\"name\": \"..\", \"arguments\": {{..}}}}", whose);
  const auto& arguments = call.at("arguments");
  return {{"name", call.at("name")},
          {"arguments", arguments.is_string() ? parsed(arguments.get_ref<const std::string&>(),
                                                       whose + " has a text of arguments")
                                              : arguments}};
}

OrderedJson calls_in(const OrderedJson& list, std::size_t number) {
  require(list.is_array(), "message {} has \"tool_calls\" that are not a list", number);
  auto calls = OrderedJson::array();
  for (const auto& one : list) {
    const auto whose =
        fmt::format("message {}: call {} of its \"tool_calls\"", number, calls.size() + 1);
    const bool inner = one.is_object() && one.contains("function");
    auto call = OrderedJson::object();
    if (inner && one.contains("id") && one.at("id").is_string()) call["id"] = one.at("id");
    if (!inner && one.is_object() && one.contains("id")) call["id"] = one.at("id");
    call["type"] = "function";
    call["function"] = function_of(inner ? one.at("function") : one, whose);
    calls.push_back(std::move(call));
  }
  return calls;
}

// Returns the calls in LLaMA-Factory's content of a message with the role function_call: the JSON
// text {"name": .., "arguments": ..}, or a list of such objects.
OrderedJson calls_of_text(const std::string& text, std::size_t number) {
  auto all =
      parsed(text, fmt::format("message {} has the role function_call, and a content", number));
  if (!all.is_array()) all = OrderedJson::array({std::move(all)});
  auto calls = OrderedJson::array();
  for (const auto& one : all)
    calls.push_back({{"type", "function"},
                     {"function", function_of(one, fmt::format("message {}: call {} of its content",
                                                               number, calls.size() + 1))}});
  return calls;
}

std::string content_in(const OrderedJson& message, const char* field, std::size_t number,
                       bool has_calls) {
  const auto found = message.find(field);
  if (has_calls && (found == message.end() || found->is_null())) return {};
  if (found == message.end() || !found->is_array()) return text_in(message, field, number);
  std::string all;
  for (const auto& part : *found) {
    require(part.is_object() && part.contains("type") && part.at("type") == "text",
            "message {} has a part that is not text: only text is supported", number);
    all += text_in(part, "text", number);
  }
  return all;
}

// Returns the role for a role name of ShareGPT or LLaMA-Factory.
std::string role_of(const std::string& from) {
  static const std::map<std::string, std::string> roles{
      {"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"observation", "tool"}};
  const auto found = roles.find(from);
  return found == roles.end() ? from : found->second;
}

// Returns whether the message is trained on, if "weight" or "train" say so.
std::optional<bool> learnt_in(const OrderedJson& message, std::size_t number) {
  std::optional<bool> learnt;
  if (const auto found = message.find("train"); found != message.end() && !found->is_null()) {
    require(found->is_boolean(), "message {} has \"train\" that is neither true nor false", number);
    learnt = found->get<bool>();
  }
  if (const auto found = message.find("weight"); found != message.end() && !found->is_null()) {
    require(found->is_number() && (*found == 0 || *found == 1),
            "message {} has a \"weight\" that is neither 0 nor 1", number);
    if (*found == 0) learnt = false;
  }
  return learnt;
}

}  // namespace

OrderedJson tools_in(const OrderedJson& line) {
  const auto found = line.find("tools");
  if (found == line.end() || found->is_null() || *found == "") return OrderedJson::array();
  auto tools = found->is_string()
                   ? parsed(found->get_ref<const std::string&>(), "\"tools\" is a text")
                   : *found;
  require(tools.is_array(), "the conversation has \"tools\" that are not a list");
  for (std::size_t i = 0; i < tools.size(); ++i)
    require(tools[i].is_object(), "element {} of \"tools\" is not a JSON object", i + 1);
  return tools;
}

void require_variables(const OrderedJson& variables, std::string_view what) {
  require(variables.is_object(), "{} is not a JSON object such as {{\"enable_thinking\": false}}",
          what);
  for (const char* own : {"messages", "tools", "add_generation_prompt"})
    require(!variables.contains(own), "{} sets \"{}\", which the conversation sets: remove it",
            what, own);
}

OrderedJson variables_in(const OrderedJson& line) {
  const auto found = line.find("chat_template_kwargs");
  if (found == line.end() || found->is_null()) return OrderedJson::object();
  require_variables(*found, "\"chat_template_kwargs\"");
  return *found;
}

Message message_of(const OrderedJson& object, std::size_t number) {
  require(object.is_object(), "message {} is not a JSON object", number);
  const bool shared = object.contains("from") && !object.contains("role");
  const char *const role_key = shared ? "from" : "role",
                    *content_key = shared ? "value" : "content";
  const auto given = object.find("tool_calls");
  auto calls =
      given == object.end() || given->is_null() ? OrderedJson::array() : calls_in(*given, number);
  auto content = content_in(object, content_key, number, !calls.empty());
  auto role = text_in(object, role_key, number);
  if (role == "function_call") {
    calls = calls_of_text(content, number);
    content.clear();
    role = "assistant";
  } else if (shared) {
    role = role_of(role);
  }
  Message m(std::move(role), std::move(content));
  m.learnt = learnt_in(object, number);
  for (const auto& [key, value] : object.items())
    if (key != role_key && key != content_key && key != "tool_calls" && key != "weight" &&
        key != "train" && !value.is_null())
      m.fields[key] = value;
  if (!calls.empty()) m.fields["tool_calls"] = std::move(calls);
  return m;
}

std::vector<Message> messages_in(const OrderedJson& list) {
  std::vector<Message> all;
  for (const auto& message : list) all.push_back(message_of(message, all.size() + 1));
  return all;
}

}  // namespace trireme
