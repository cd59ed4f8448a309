#include "lib/data/chat_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

using SystemPlace = ChatTemplate::SystemPlace;

// What Python's str.strip() takes for white space.
bool is_stripped(std::int32_t c) {
  return is_space(c) || (c >= 0x1c && c <= 0x1f);
}
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_stripped(first_code_point(text).value))
    text.remove_prefix(first_code_point(text).bytes);
  while (!text.empty() && is_stripped(last_code_point(text).value))
    text.remove_suffix(last_code_point(text).bytes);
  return text;
}

class Writer {
 public:
  explicit Writer(const ChatTemplate& t) : template_(t) {}

  // Text of the template; returns where its first special token ends, or where all of it does.
  std::size_t write(std::string_view text) {
    const auto at = chat_.text.size();
    chat_.text += text;
    std::size_t first_end = chat_.text.size();
    bool any = false;
    for (std::size_t i = 0; i < text.size();) {
      const auto n = special_at(template_, text.substr(i));
      if (n > 0) {
        chat_.special.push_back({at + i, at + i + n});
        if (!std::exchange(any, true)) first_end = at + i + n;
      }
      i += std::max<std::size_t>(n, 1);
    }
    return first_end;
  }
  void write_content(std::string_view text) { chat_.text += text; }
  // With other texts in the place of some names.
  using Texts = std::map<std::string_view, std::string_view>;
  void write(std::string_view text, const Texts& others) {
    std::vector<std::string_view> names;
    for (const auto& [name, other] : others) names.push_back(name);
    for (const auto& part : parts_of(text, names))
      if (part.stands_for_other)
        write_content(others.at(part.text));
      else
        write(part.text);
  }
  std::size_t place() const { return chat_.text.size(); }
  void learn(std::size_t begin, std::size_t end) {
    if (end > begin) chat_.targets.push_back({begin, end});
  }
  ChatText take() { return std::move(chat_); }

 private:
  const ChatTemplate& template_;
  ChatText chat_;
};

const ChatTemplate::Turn& turn_of(const ChatTemplate& t, const std::string& role,
                                  std::size_t number) {
  const auto found = t.turns.find(role);
  if (found != t.turns.end()) return found->second;
  std::vector<std::string> roles;
  for (const auto& [name, turn] : t.turns) roles.push_back(name);
  fail(
      "message {} is of \"{}\", a role that the chat template {} does not have: it has {}; rename "
      "it, or write a template with a turn for it",
      number, role, t.name, fmt::join(roles, ", "));
}

void check(const ChatTemplate& t, const Conversation& c) {
  const std::size_t turns_begin = !c.empty() && c[0].role == "system" ? 1 : 0;
  require(c.size() > turns_begin, "the conversation has no turn");
  require(
      c[0].tools.empty() || !t.tools.each.empty(),
      "the conversation has \"tools\", which the chat template {} does not write: leave them out, "
      "or write one with a text for them",
      t.name);
  for (std::size_t i = 0; i < c.size(); ++i) {
    turn_of(t, c[i].role, i + 1);
    require(t.refused.empty() || c[i].content.find(t.refused) == std::string::npos,
            "message {} holds {}, which the chat template {} does not write here", i + 1, t.refused,
            t.name);
    require(c[i].calls.empty() || (c[i].role == "assistant" && !t.calls.each.empty()),
            "message {} has \"tool_calls\": the chat template {} writes {}", i + 1, t.name,
            t.calls.each.empty() ? "none, write one with a text for them"
                                 : "those of an assistant alone");
    require(i == 0 || c[i].role != "system" || t.system == SystemPlace::own_turn,
            "message {} is of the system: the chat template {} has one at the begin alone", i + 1,
            t.name);
    require(i != turns_begin || t.system != SystemPlace::first_user_turn || c[i].role == "user" ||
                (turns_begin == 0 && t.default_system.empty()),
            "message {} is of \"{}\": the chat template {} writes the system's text into the first "
            "user's turn, which has to come first",
            i + 1, c[i].role, t.name);
    if (!t.alternating || i < turns_begin) continue;
    const auto* const role = (i - turns_begin) % 2 == 0 ? "user" : "assistant";
    require(c[i].role == role,
            "message {} is of \"{}\": in the chat template {} user and assistant take turns, the "
            "user begins",
            i + 1, c[i].role, t.name);
  }
}

// With the default system text where there is none, and in the first user's where it belongs there.
Conversation prepared(const ChatTemplate& t, Conversation c) {
  if (c[0].role != "system" && (!t.default_system.empty() || !c[0].tools.empty())) {
    auto tools = std::exchange(c[0].tools, {});
    c.insert(c.begin(), {"system", t.default_system, {}, std::move(tools)});
  }
  if (t.system == SystemPlace::first_user_turn && c[0].role == "system") {
    const auto& turn = turn_of(t, "system", 1);
    c[1].content = turn.before + c[0].content + turn.after + c[1].content;
    c.erase(c.begin());
  }
  for (auto& message : c)
    if (t.trimmed) message.content = trimmed(message.content);
  return c;
}

std::string_view without_line_ends(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

void write_calls(const ChatTemplate& t, const Message& message, Writer& writer) {
  bool any = !message.content.empty();
  for (const auto& call : message.calls) {
    if (std::exchange(any, true)) writer.write(t.calls.between);
    writer.write(t.calls.each, {{"{name}", call.name}, {"{arguments}", call.arguments}});
  }
}

void write_tools(const ChatTemplate& t, const std::vector<std::string>& tools, bool behind_text,
                 Writer& writer) {
  if (behind_text) writer.write(t.tools.apart);
  writer.write(t.tools.before);
  for (const auto& tool : tools) writer.write(t.tools.each, {{"{tool}", tool}});
  writer.write(t.tools.after);
}

// How many tokens lie before a place of the text: those that end there or before.
class Places {
 public:
  Places(const Tokenizer& tokenizer, const ChatText& chat) : tokenizer_(tokenizer), chat_(chat) {
    index_ = tokenizer.encode_marked(chat.text, chat.special, ids_);
  }
  const std::vector<std::int32_t>& ids() const { return ids_; }

  struct Count {
    std::size_t whole;  // tokens that end there or before
    bool divides;       // the place is inside of the next one
  };
  // Places are between the parts that a conversation is written of, so never inside a special
  // token.
  Count before(std::size_t place) const {
    const auto above = std::ranges::upper_bound(chat_.special, place, {}, &TextSpan::end);
    const auto n = static_cast<std::size_t>(above - chat_.special.begin());
    const Run run{n == 0 ? 0 : chat_.special[n - 1].end,
                  n == chat_.special.size() ? chat_.text.size() : chat_.special[n].begin,
                  n == 0 ? 0 : index_[n - 1] + 1, n == index_.size() ? ids_.size() : index_[n]};
    if (place == run.text_begin) return {run.ids_begin, false};
    if (const auto ends = ends_of_tokens(run)) {
      const auto whole = std::ranges::upper_bound(*ends, place) - ends->begin();
      const auto end = whole == 0 ? run.text_begin : (*ends)[static_cast<std::size_t>(whole) - 1];
      return {run.ids_begin + static_cast<std::size_t>(whole), end < place};
    }
    return encoded_up_to(place, n);
  }

 private:
  // Between two special tokens.
  struct Run {
    std::size_t text_begin, text_end, ids_begin, ids_end;
  };

  // Where each token's text ends; none where a normalizer made other text of it.
  std::optional<std::vector<std::size_t>> ends_of_tokens(const Run& run) const {
    std::vector<std::size_t> ends;
    std::size_t at = run.text_begin;
    for (auto i = run.ids_begin; i < run.ids_end; ++i) {
      const auto bytes = tokenizer_.text_bytes(ids_[i]);
      if (!bytes) return std::nullopt;
      ends.push_back(at += *bytes);
    }
    const auto more = at - run.text_end;  // 1: of a space that was put first
    if (at < run.text_end || more > 1) return std::nullopt;
    for (auto& end : ends) end -= more;
    return ends;
  }

  // The text behind special token n - 1 is encoded once more up to the place: where it differs from
  // the whole, a token goes across. Right when that is the one before the place.
  Count encoded_up_to(std::size_t place, std::size_t n) const {
    const auto from = n == 0 ? 0 : chat_.special[n - 1].begin;
    const auto first = n == 0 ? 0 : index_[n - 1];
    std::vector<TextSpan> mark;
    if (n > 0) mark.push_back({0, chat_.special[n - 1].end - from});
    std::vector<std::int32_t> part;
    tokenizer_.encode_marked(std::string_view(chat_.text).substr(from, place - from), mark, part);
    const auto rest = std::span(ids_).subspan(first);
    const auto same =
        static_cast<std::size_t>(std::ranges::mismatch(part, rest).in1 - part.begin());
    return {first + same, same < part.size()};
  }

  const Tokenizer& tokenizer_;
  const ChatText& chat_;
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> index_;  // of the special tokens among the ids
};

}  // namespace

// All but what ends the conversation.
static Writer written(const ChatTemplate& t, const Conversation& conversation,
                      std::size_t learnt_from) {
  check(t, conversation);
  const bool has_system = conversation[0].role == "system" || !t.default_system.empty();
  const auto turns = prepared(t, conversation);
  const bool asked = std::ranges::find(turns, "user", &Message::role) != turns.end();
  Writer writer(t);
  writer.write(t.begin);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const auto& message = turns[i];
    const auto& role = message.role;
    const auto& turn = turn_of(t, role, i + 1);
    if (i == 0 || turns[i - 1].role != role) writer.write(turn.group_before);
    writer.write(turn.before);
    const bool ends = i + 1 == turns.size();
    const bool thinks = ends && asked && role == "assistant" && !t.before_last.empty();
    if (thinks) writer.write(t.before_last);
    const auto begin = writer.place();
    writer.write_content(thinks ? without_line_ends(message.content) : message.content);
    write_calls(t, message, writer);
    if (!message.tools.empty()) write_tools(t, message.tools, has_system, writer);
    const auto end = writer.write(turn.after);
    const auto message_number = i + conversation.size() - turns.size();  // a system's may differ
    if (role == "assistant" && message_number >= learnt_from) writer.learn(begin, end);
    if (ends || turns[i + 1].role != role) writer.write(turn.group_after);
  }
  return writer;
}

ChatText write_chat(const ChatTemplate& t, const Conversation& conversation,
                    std::size_t learnt_from) {
  auto writer = written(t, conversation, learnt_from);
  writer.write(t.end);
  return writer.take();
}

ChatText write_question(const ChatTemplate& t, const Conversation& conversation) {
  require(conversation.empty() || conversation.back().role != "assistant",
          "the conversation ends with an answer: end it with what is to be answered");
  auto writer = written(t, conversation, 0);
  writer.write(begin_of_answer(t));
  auto chat = writer.take();
  chat.targets.clear();
  return chat;
}

void encode_chat(const Tokenizer& tokenizer, const ChatText& chat, std::vector<std::int32_t>& ids,
                 std::vector<std::uint8_t>& targets) {
  const Places places(tokenizer, chat);
  const auto& all = places.ids();
  std::vector<std::uint8_t> learnt(all.size(), 0);
  for (const auto& target : chat.targets) {
    const auto end = places.before(target.end);
    const auto begin = places.before(target.begin).whole;
    for (auto i = begin; i < std::min(all.size(), end.whole + (end.divides ? 1 : 0)); ++i)
      learnt[i] = 1;
  }
  ids.insert(ids.end(), all.begin(), all.end());
  targets.insert(targets.end(), learnt.begin(), learnt.end());
}

}  // namespace trireme
