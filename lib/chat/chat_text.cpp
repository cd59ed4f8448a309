#include "lib/chat/chat_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/chat/chat_check.hpp"
#include "lib/chat/python_json.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

class Writer {
 public:
  explicit Writer(const ChatTemplate& t) : template_(t) {}

  // Writes a text of the template. Returns the end of its first special token, or of the whole text
  // if it contains none.
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
  // Other texts by the names that they replace.
  using Texts = std::map<std::string_view, std::string>;
  std::size_t write(std::string_view text, const Texts& others) {
    std::vector<std::string_view> names;
    for (const auto& [name, other] : others) names.push_back(name);
    std::optional<std::size_t> first_end;
    for (const auto& part : parts_of(text, names)) {
      const auto specials = chat_.special.size();
      if (part.stands_for_other) {
        write_content(others.at(part.text));
        continue;
      }
      const auto end = write(part.text);
      if (!first_end && chat_.special.size() > specials) first_end = end;
    }
    return first_end.value_or(place());
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

// Returns the first user message. The system text precedes its content, or its turn has the tools.
Message& first_user(Conversation& c) {
  return *std::ranges::find(c, "user", &Message::role);
}
Message& last_user(Conversation& c) {
  return *std::ranges::find(c.rbegin(), c.rend(), "user", &Message::role);
}

// Returns the conversation in the form in which it is written. The system text and the tools are in
// the messages with which they are written. Contents are trimmed, or JSON, as the template
// requires.
Conversation prepared(const ChatTemplate& t, Conversation c) {
  auto tools = std::exchange(c[0].tools, {});
  const bool in_system = !tools.empty() && t.tools.place == ToolsPlace::system;
  if (c[0].role != "system" && (!t.default_system.empty() || t.system_always || in_system))
    c.insert(c.begin(), {"system", t.default_system});
  if (!tools.empty()) {
    const bool last = t.tools.place == ToolsPlace::before_last_user;
    auto& owner = in_system ? c[0] : last ? last_user(c) : first_user(c);
    owner.tools = std::move(tools);
  }
  if (t.system != SystemPlace::own_turn && c[0].role == "system") {
    const auto& turn = turn_of(t, "system", 1);
    const std::string_view text = turn.trimmed ? trimmed(c[0].content) : c[0].content;
    auto& user = t.system == SystemPlace::last_user ? last_user(c) : first_user(c);
    user.content = fmt::format("{}{}{}{}", turn.before, text, turn.after, user.content);
    c.erase(c.begin());
  }
  for (auto& message : c) {
    const auto& turn = turn_of(t, message.role, 1);
    if (turn.json)
      message.content = python_json_text(message.content);
    else if (t.trimmed || turn.trimmed)
      message.content = trimmed(message.content);
    if (!message.calls.empty() && t.calls.message != MessageHas::content_and_calls)
      message.content.clear();
  }
  return c;
}

std::string_view without_line_ends(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

void write_calls(const ChatTemplate& t, const Message& message, Writer& writer) {
  if (message.calls.empty()) return;
  if (!message.content.empty()) writer.write(t.calls.between);
  writer.write(t.calls.before);
  bool any = false;
  for (const auto& call : message.calls) {
    if (std::exchange(any, true)) writer.write(t.calls.between);
    writer.write(t.calls.each,
                 {{"{name}", call.name}, {"{arguments}", call.arguments}, {"{id}", call.id}});
  }
  writer.write(t.calls.after);
}

void write_tools(const ChatTemplate& t, const std::vector<std::string>& tools, Writer& writer) {
  writer.write(t.tools.before);
  bool any = false;
  for (const auto& tool : tools) {
    if (std::exchange(any, true)) writer.write(t.tools.between);
    const auto spaces = static_cast<std::size_t>(t.tools.indent);
    writer.write(t.tools.each, {{"{tool}", spaces > 0 ? indented_json(tool, spaces) : tool}});
  }
  writer.write(t.tools.after);
}

// Returns the text before the content of a turn.
std::string before_content(const ChatTemplate& t, const Message& message, bool any_tools) {
  if (!message.calls.empty() && t.calls.message != MessageHas::content_and_calls)
    return begin_of_calls(t);
  const bool other = any_tools && message.role == "system" && !t.tools.system_before.empty();
  return other ? t.tools.system_before : turn_of(t, message.role, 1).before;
}

// Counts the tokens that end at a position of the text or before it.
class Places {
 public:
  Places(const Tokenizer& tokenizer, const ChatText& chat) : tokenizer_(tokenizer), chat_(chat) {
    index_ = tokenizer.encode_marked(chat.text, chat.special, ids_);
  }
  const std::vector<std::int32_t>& ids() const { return ids_; }

  struct Count {
    std::size_t whole;  // tokens that end at the position or before
    bool divides;       // the position is inside the next token
  };
  // Positions are between the parts from which a conversation is written, and so never inside a
  // special token.
  Count before(std::size_t place) {
    const auto above = std::ranges::upper_bound(chat_.special, place, {}, &TextSpan::end);
    const auto n = static_cast<std::size_t>(above - chat_.special.begin());
    const Run run{n == 0 ? 0 : chat_.special[n - 1].end,
                  n == chat_.special.size() ? chat_.text.size() : chat_.special[n].begin,
                  n == 0 ? 0 : index_[n - 1] + 1, n == index_.size() ? ids_.size() : index_[n]};
    if (place == run.text_begin) return {run.ids_begin, false};
    if (run_ != n) {
      ends_ = ends_of_tokens(run);
      run_ = n;
    }
    if (ends_) {
      const auto whole = std::ranges::upper_bound(*ends_, place) - ends_->begin();
      const auto end = whole == 0 ? run.text_begin : (*ends_)[static_cast<std::size_t>(whole) - 1];
      return {run.ids_begin + static_cast<std::size_t>(whole), end < place};
    }
    return encoded_up_to(place, n);
  }

 private:
  // Text and ids between two special tokens.
  struct Run {
    std::size_t text_begin, text_end, ids_begin, ids_end;
  };

  // Returns where each token's text ends, or nothing if a normalizer changed the text.
  std::optional<std::vector<std::size_t>> ends_of_tokens(const Run& run) const {
    std::vector<std::size_t> ends;
    std::size_t at = run.text_begin;
    for (auto i = run.ids_begin; i < run.ids_end; ++i) {
      const auto bytes = tokenizer_.text_bytes(ids_[i]);
      if (!bytes) return std::nullopt;
      ends.push_back(at += *bytes);
    }
    const auto more = at - run.text_end;  // 1: a space was added before the text
    if (at < run.text_end || more > 1) return std::nullopt;
    for (auto& end : ends) end -= more;
    return ends;
  }

  // Encodes the text from special token n - 1 up to the position once more. Where the ids differ
  // from those of the whole text, a token crosses the position. The count is right if only that
  // token differs.
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
  std::vector<std::size_t> index_;  // indices of the special tokens in ids_
  // Ends of the tokens of run_, the run asked for last. Many positions may be in one run.
  std::optional<std::size_t> run_;
  std::optional<std::vector<std::size_t>> ends_;
};

}  // namespace

// Writes a conversation, without the text that ends it.
static Writer written(const ChatTemplate& t, const Conversation& conversation,
                      std::size_t learnt_from) {
  require_writable(t, conversation);
  const bool has_system = conversation[0].role == "system" || !t.default_system.empty();
  const bool any_tools = !conversation[0].tools.empty();
  const auto turns = prepared(t, conversation);
  const bool asked = std::ranges::find(turns, "user", &Message::role) != turns.end();
  Writer writer(t);
  writer.write(t.begin);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const auto& message = turns[i];
    const auto& role = message.role;
    const auto& turn = turn_of(t, role, i + 1);
    const Writer::Texts id{{"{id}", message.call_id}};
    const bool has_tools = !message.tools.empty();
    if (i == 0 || turns[i - 1].role != role) writer.write(turn.group_before);
    if (has_tools && t.tools.place == ToolsPlace::before_last_user)
      write_tools(t, message.tools, writer);
    writer.write(before_content(t, message, any_tools), id);
    const bool ends = i + 1 == turns.size();
    const bool thinks = ends && asked && role == "assistant" && !t.before_last.empty();
    if (thinks) writer.write(t.before_last);
    if (has_tools && t.tools.place == ToolsPlace::first_user) write_tools(t, message.tools, writer);
    const auto begin = writer.place();
    writer.write_content(thinks ? without_line_ends(message.content) : message.content);
    write_calls(t, message, writer);
    if (has_tools && t.tools.place == ToolsPlace::system) {
      if (has_system) writer.write(t.tools.apart);
      write_tools(t, message.tools, writer);
    }
    const auto end = writer.write(turn.after, id);
    // The prepared turns may only differ by a system message before all others.
    const auto message_number = i + conversation.size() - turns.size();
    if (role == "assistant" && message.learnt && message_number >= learnt_from)
      writer.learn(begin, end);
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
          "the conversation ends with an assistant message: end it with the message to answer");
  auto writer = written(t, conversation, 0);
  writer.write(begin_of_answer(t));
  auto chat = writer.take();
  chat.targets.clear();
  return chat;
}

void encode_chat(const Tokenizer& tokenizer, const ChatText& chat, std::vector<std::int32_t>& ids,
                 std::vector<std::uint8_t>& targets) {
  Places places(tokenizer, chat);
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
