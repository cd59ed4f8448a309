#include "lib/chat/conversation.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/chat/python_json.hpp"

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

// JSON of the values that are written into the text. It is made when first needed.
class Texts {
 public:
  explicit Texts(std::string_view text) : text_(text) {}
  const std::string& at(const JsonPlace& place) {
    if (!all_)
      all_ = python_json(text_, [](const JsonPlace& p) {
        return (p.size() == 2 && p[0] == "tools") ||
               (!p.empty() && p.back() == "arguments" && std::ranges::count(p, "tool_calls") > 0);
      });
    return all_->at(place);
  }

 private:
  std::string_view text_;
  std::optional<std::map<JsonPlace, std::string>> all_;
};

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
      fail("message {}: the arguments of its call {} are not JSON ({})", number, calls.size() + 1,
           e.what());
    }
    calls.push_back({call.at("name").get<std::string>(),
                     arguments.is_string() ? arguments.get<std::string>() : texts.at(at),
                     id_in(one, "id")});
  }
  return calls;
}

std::vector<std::string> tools_in(const Json& object, Texts& texts) {
  const auto& list = list_in(object, "tools", "the conversation");
  std::vector<std::string> tools;
  for (const auto& one : list) {
    require(one.is_object(), "element {} of \"tools\" is not a JSON object", tools.size() + 1);
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
            "message {} has a part that is not text: only text is supported", number);
    all += text_in(part, "text", number);
  }
  return all;
}

// Returns the role for a role name of ShareGPT.
std::string role_of(const std::string& from) {
  static const std::map<std::string, std::string> roles{
      {"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"observation", "tool"}};
  const auto found = roles.find(from);
  return found == roles.end() ? from : found->second;
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

// Returns the message at `place` in the text. Error messages call it message `number`.
Message message_of(const Json& message, const JsonPlace& place, std::size_t number, Texts& texts) {
  require(message.is_object(), "message {} is not a JSON object", number);
  const bool shared = message.contains("from") && !message.contains("role");
  auto calls = calls_in(message, place, number, texts);
  auto content = content_in(message, shared ? "value" : "content", number, !calls.empty());
  auto role = text_in(message, shared ? "from" : "role", number);
  if (shared) role = role_of(role);
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

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Adds the system text that LLaMA-Factory stores in a field beside the messages.
void add_system(const Json& object, Conversation& all) {
  const auto* const system = member(object, "system");
  if (!system || *system == "") return;
  require(system->is_string(), "\"system\" is not a text");
  const Message first{"system", system->get<std::string>()};
  require(all.empty() || all[0].role != "system" || all[0] == first,
          "\"system\" differs from the system message of the conversation: remove one of them");
  if (all.empty() || all[0].role != "system") all.insert(all.begin(), first);
}

void add_system_and_tools(const Json& object, Texts& texts, Conversation& all) {
  add_system(object, all);
  auto tools = tools_in(object, texts);
  require(tools.empty() || !all.empty(), "the conversation has tools but no message");
  if (!tools.empty()) all[0].tools = std::move(tools);
}

struct Prompt {
  const char* name;
  Conversation messages{};
  bool is_text = false;
};

Prompt prompt_in(const Json& object, Texts& texts) {
  const auto given = [&](const char* name) {
    const auto* const one = member(object, name);
    return one && *one != "" && *one != Json::array();
  };
  require(!given("prompt") || !given("conversations"),
          "there are both \"prompt\" and \"conversations\": remove one of them");
  const char* const name = given("conversations") ? "conversations" : "prompt";
  if (!given(name)) return {name};
  const auto* const prompt = member(object, name);
  if (prompt->is_string()) return {name, {{"user", prompt->get<std::string>()}}, true};
  require(prompt->is_array(), "\"{}\" is neither a text nor a list of messages", name);
  return {name, messages_in(*prompt, name, texts), false};
}

// Returns an answer, which is a list of messages, one message, or the text of one message.
Conversation answer_in(const Json& object, const char* name, Texts& texts) {
  const auto* const answer = member(object, name);
  if (answer && answer->is_array()) return messages_in(*answer, name, texts);
  if (answer && answer->is_object()) return {message_of(*answer, {name}, 1, texts)};
  require(answer && answer->is_string(),
          "there is no \"{}\": with --preference and --chat, write each line as {{\"prompt\": .., "
          "\"chosen\": [{{\"role\": \"assistant\", \"content\": ..}}], \"rejected\": [..]}}",
          name);
  return {{"assistant", answer->get<std::string>()}};
}

bool asks(const Conversation& c, const Conversation& prompt) {
  return std::ranges::any_of(
      c, [&](const Message& m) { return m.role == "user" && m.content == prompt[0].content; });
}
// Returns true if the conversation continues the prompt. It may begin with a system message that
// the prompt lacks.
bool begins_with(const Conversation& c, const Conversation& prompt) {
  const auto from = c.begin() + (!c.empty() && c[0].role == "system" && prompt[0].role != "system");
  return c.end() - from > std::ssize(prompt) && std::equal(prompt.begin(), prompt.end(), from);
}

// Puts the prompt before both conversations, unless they are whole conversations that already
// contain it.
void put_before(const Prompt& prompt, ConversationPair& pair) {
  const auto& p = prompt.messages;
  if (p.empty() || (begins_with(pair.chosen, p) && begins_with(pair.rejected, p))) return;
  if (prompt.is_text && asks(pair.chosen, p) && asks(pair.rejected, p)) return;
  for (auto* all : {&pair.chosen, &pair.rejected}) {
    const bool whole = std::ranges::any_of(*all, [](auto& m) { return m.role == "user"; });
    require(!prompt.is_text || !whole,
            "\"chosen\" and \"rejected\" do not both contain the text of \"prompt\" as a user "
            "message: if they are whole conversations, remove \"prompt\"");
    const auto first = all->empty() ? std::string() : (*all)[0].role;
    require(first != "system" && first != "user",
            "an answer begins with a message of the role {}, like a whole conversation, but does "
            "not begin with all of \"{}\": remove \"{}\", or give only the messages after it",
            first, prompt.name, prompt.name);
    all->insert(all->begin(), p.begin(), p.end());
  }
}

std::size_t last_answer(const Conversation& c, const char* name) {
  for (auto i = c.size(); i-- > 0;)
    if (c[i].role == "assistant") return i;
  fail("\"{}\" has no assistant message", name);
}

}  // namespace

ConversationPair conversation_pair_of(const Json& object, std::string_view text) {
  require(object.is_object(), "this line is JSON, but not a JSON object: each line must be one");
  Texts texts(text);
  const auto prompt = prompt_in(object, texts);
  ConversationPair pair{answer_in(object, "chosen", texts), answer_in(object, "rejected", texts)};
  for (const char* name : {"chosen", "rejected"})
    require(!prompt.messages.empty() || object.at(name).is_array(),
            "there is no \"prompt\" for the answer \"{}\": add one, or give a whole conversation "
            "as a list of messages",
            name);
  put_before(prompt, pair);
  add_system_and_tools(object, texts, pair.chosen);
  add_system_and_tools(object, texts, pair.rejected);
  const auto differ = std::ranges::mismatch(pair.chosen, pair.rejected).in1;
  pair.learnt_from =
      std::min({static_cast<std::size_t>(differ - pair.chosen.begin()),
                last_answer(pair.chosen, "chosen"), last_answer(pair.rejected, "rejected")});
  return pair;
}

LabeledTurns labeled_turns_of(const Json& object, std::string_view text) {
  for (const char* other : {"prompt", "completion"})
    require(!object.contains("messages") || !object.contains(other),
            "there are both \"messages\" and \"{}\": \"messages\" is a whole conversation, whose "
            "last message is the answer. Remove one of them",
            other);
  if (!object.contains("completion")) {
    auto all = conversation_of(object, text);
    require(!all.empty() && all.back().role == "assistant",
            "there is no \"completion\", and the last message is not an assistant message: write "
            "each line as {{\"prompt\": .., \"completion\": .., \"label\": true}}");
    LabeledTurns turns{{}, {all.back()}};
    all.pop_back();
    turns.prompt = std::move(all);
    require(!turns.prompt.empty(), "the conversation has no message before its last one");
    return turns;
  }
  Texts texts(text);
  LabeledTurns turns{prompt_in(object, texts).messages, answer_in(object, "completion", texts)};
  require(!turns.prompt.empty(), "there is no \"prompt\" for the \"completion\": add one");
  add_system_and_tools(object, texts, turns.prompt);
  last_answer(turns.answer, "completion");
  const auto& first = turns.answer[0].role;
  require(first != "system" && first != "user",
          "\"completion\" begins with a message of the role {}: give only the messages after "
          "\"prompt\"",
          first);
  return turns;
}

Conversation conversation_of(const Json& object, std::string_view text) {
  require(object.is_object(), "this line is JSON, but not a JSON object: each line must be one");
  const bool shared = !object.contains("messages") && object.contains("conversations");
  const auto* const list = shared ? "conversations" : "messages";
  const auto found = object.find(list);
  require(found != object.end() && found->is_array(),
          "there is no list \"messages\": write a conversation as {{\"messages\": [{{\"role\": "
          "\"user\", \"content\": ..}}, ..]}}");
  Texts texts(text);
  auto all = messages_in(*found, list, texts);
  add_system_and_tools(object, texts, all);
  return all;
}

}  // namespace trireme
