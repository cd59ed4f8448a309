#include "lib/chat/conversation.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/chat/messages.hpp"

namespace trireme {

namespace {

const OrderedJson* member(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Adds the system text that LLaMA-Factory stores in a field beside the messages.
void add_system(const OrderedJson& object, std::vector<Message>& all) {
  const auto* const system = member(object, "system");
  if (!system || *system == "") return;
  require(system->is_string(), "\"system\" is not a text");
  const Message first("system", system->get<std::string>());
  const bool has_one = !all.empty() && all[0].role == "system";
  require(!has_one || all[0] == first,
          "\"system\" differs from the system message of the conversation: remove one of them");
  if (!has_one) all.insert(all.begin(), first);
}

// Adds the system text, the tools and the variables of a line to its messages.
void complete(const OrderedJson& object, Conversation& c) {
  add_system(object, c.messages);
  c.tools = tools_in(object);
  c.variables = variables_in(object);
  require(c.tools.empty() || !c.messages.empty(), "the conversation has tools but no message");
}

struct Prompt {
  const char* name;
  std::vector<Message> messages{};
  bool is_text = false;
};

Prompt prompt_in(const OrderedJson& object) {
  const auto given = [&](const char* name) {
    const auto* const one = member(object, name);
    return one && *one != "" && *one != OrderedJson::array();
  };
  require(!given("prompt") || !given("conversations"),
          "there are both \"prompt\" and \"conversations\": remove one of them");
  const char* const name = given("conversations") ? "conversations" : "prompt";
  if (!given(name)) return {name};
  const auto* const prompt = member(object, name);
  if (prompt->is_string()) return {name, {Message("user", prompt->get<std::string>())}, true};
  require(prompt->is_array(), "\"{}\" is neither a text nor a list of messages", name);
  return {name, messages_in(*prompt), false};
}

// Returns an answer, which is a list of messages, one message, or the text of one message.
std::vector<Message> answer_in(const OrderedJson& object, const char* name) {
  const auto* const answer = member(object, name);
  if (answer && answer->is_array()) return messages_in(*answer);
  if (answer && answer->is_object()) return {message_of(*answer, 1)};
  require(answer && answer->is_string(),
          "there is no \"{}\": with --preference and --chat, write each line as {{\"prompt\": .., "
          "\"chosen\": [{{\"role\": \"assistant\", \"content\": ..}}], \"rejected\": [..]}}",
          name);
  return {Message("assistant", answer->get<std::string>())};
}

bool asks(const std::vector<Message>& c, const std::vector<Message>& prompt) {
  return std::ranges::any_of(
      c, [&](const Message& m) { return m.role == "user" && m.content() == prompt[0].content(); });
}
// Returns true if the conversation continues the prompt. It may begin with a system message that
// the prompt lacks.
bool begins_with(const std::vector<Message>& c, const std::vector<Message>& prompt) {
  const auto from = c.begin() + (!c.empty() && c[0].role == "system" && prompt[0].role != "system");
  return c.end() - from > std::ssize(prompt) && std::equal(prompt.begin(), prompt.end(), from);
}

// Puts the prompt before both conversations, unless they are whole conversations that already
// contain it.
void put_before(const Prompt& prompt, ConversationPair& pair) {
  const auto& p = prompt.messages;
  auto &chosen = pair.chosen.messages, &rejected = pair.rejected.messages;
  if (p.empty() || (begins_with(chosen, p) && begins_with(rejected, p))) return;
  if (prompt.is_text && asks(chosen, p) && asks(rejected, p)) return;
  for (auto* all : {&chosen, &rejected}) {
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

std::size_t last_answer(const std::vector<Message>& c, const char* name) {
  for (auto i = c.size(); i-- > 0;)
    if (c[i].role == "assistant") return i;
  fail("\"{}\" has no assistant message", name);
}

}  // namespace

ConversationPair conversation_pair_of(const OrderedJson& object) {
  require(object.is_object(), "this line is JSON, but not a JSON object: each line must be one");
  const auto prompt = prompt_in(object);
  ConversationPair pair;
  pair.chosen.messages = answer_in(object, "chosen");
  pair.rejected.messages = answer_in(object, "rejected");
  for (const char* name : {"chosen", "rejected"})
    require(!prompt.messages.empty() || object.at(name).is_array(),
            "there is no \"prompt\" for the answer \"{}\": add one, or give a whole conversation "
            "as a list of messages",
            name);
  put_before(prompt, pair);
  complete(object, pair.chosen);
  complete(object, pair.rejected);
  const auto &chosen = pair.chosen.messages, &rejected = pair.rejected.messages;
  const auto differ = std::ranges::mismatch(chosen, rejected).in1;
  pair.learnt_from = std::min({static_cast<std::size_t>(differ - chosen.begin()),
                               last_answer(chosen, "chosen"), last_answer(rejected, "rejected")});
  return pair;
}

LabeledTurns labeled_turns_of(const OrderedJson& object) {
  for (const char* other : {"prompt", "completion"})
    require(!object.contains("messages") || !object.contains(other),
            "there are both \"messages\" and \"{}\": \"messages\" is a whole conversation, whose "
            "last message is the answer. Remove one of them",
            other);
  if (!object.contains("completion")) {
    LabeledTurns turns{conversation_of(object), {}};
    auto& all = turns.prompt.messages;
    require(!all.empty() && all.back().role == "assistant",
            "there is no \"completion\", and the last message is not an assistant message: write "
            "each line as {{\"prompt\": .., \"completion\": .., \"label\": true}}");
    turns.answer = {all.back()};
    all.pop_back();
    require(!all.empty(), "the conversation has no message before its last one");
    return turns;
  }
  LabeledTurns turns;
  turns.prompt.messages = prompt_in(object).messages;
  turns.answer = answer_in(object, "completion");
  require(!turns.prompt.messages.empty(), "there is no \"prompt\" for the \"completion\": add one");
  complete(object, turns.prompt);
  last_answer(turns.answer, "completion");
  const auto& first = turns.answer[0].role;
  require(first != "system" && first != "user",
          "\"completion\" begins with a message of the role {}: give only the messages after "
          "\"prompt\"",
          first);
  return turns;
}

static std::string keys_of(const OrderedJson& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : ", ") + key;
  return keys.empty() ? "none" : keys;
}

// Returns the messages of {"instruction": .., "input": .., "output": ..}. Like LLaMA-Factory, puts
// the input on a new line after the instruction, and earlier turns in "history" before it.
static std::vector<Message> alpaca_messages(const OrderedJson& object) {
  const auto text = [&](const char* name) -> std::string {
    const auto* const value = member(object, name);
    require(!value || value->is_string(), "\"{}\" is not a text", name);
    return value ? value->get<std::string>() : std::string();
  };
  std::vector<Message> all;
  if (const auto* const history = member(object, "history"))
    for (const auto& turn : *history) {
      require(turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string(),
              "\"history\" is not a list of pairs of texts");
      all.emplace_back("user", turn[0].get<std::string>());
      all.emplace_back("assistant", turn[1].get<std::string>());
    }
  const auto instruction = text("instruction"), input = text("input");
  all.emplace_back("user",
                   instruction + (instruction.empty() || input.empty() ? "" : "\n") + input);
  all.emplace_back("assistant", text("output"));
  return all;
}

// Returns the messages of {"prompt": .., "completion": ..}, of which only the completion is trained
// on.
static std::vector<Message> completed_messages(const OrderedJson& object) {
  auto all = prompt_in(object).messages;
  require(!all.empty(), "there is no \"prompt\" for the \"completion\": add one");
  for (auto& m : all) m.learnt = false;
  for (auto& m : answer_in(object, "completion")) all.push_back(std::move(m));
  return all;
}

Conversation conversation_of(const OrderedJson& object) {
  require(object.is_object(), "this line is JSON, but not a JSON object: each line must be one");
  const bool shared = !object.contains("messages") && object.contains("conversations");
  const auto* const list = shared ? "conversations" : "messages";
  const auto found = object.find(list);
  Conversation c;
  if (found != object.end() && found->is_array()) {
    c.messages = messages_in(*found);
  } else if (object.contains("completion")) {
    c.messages = completed_messages(object);
  } else {
    require(object.contains("instruction") && object.contains("output"),
            "there is no list \"messages\": write a conversation as {{\"messages\": [{{\"role\": "
            "\"user\", \"content\": ..}}, ..]}}{}",
            object.contains("chosen") ? ", or add --preference for pairs of answers"
            : object.contains("text")
                ? ", or leave out --chat for texts"
                : fmt::format(". The keys of the line are {}", keys_of(object)));
    c.messages = alpaca_messages(object);
  }
  complete(object, c);
  return c;
}

}  // namespace trireme
