#include "lib/chat/conversation.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/chat/messages.hpp"

namespace trireme {

namespace {

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
