#include "lib/chat/rendered_chat.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/tokenizer/utf8.hpp"

namespace trireme {

namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::array parts{MessagePart::content, MessagePart::thought, MessagePart::call};
constexpr std::string_view spaces = " \t\r\n";

// All data of a conversation, to see which characters occur in it.
std::string data_of(const Conversation& c) {
  std::string all = c.tools.dump() + c.variables.dump();
  for (const auto& m : c.messages) all += m.fields.dump();
  return all;
}

// Removes the characters that Python's str.strip() removes.
std::string_view trimmed(std::string_view text) {
  const auto is_stripped = [](std::int32_t c) { return is_space(c) || (c >= 0x1c && c <= 0x1f); };
  while (!text.empty() && is_stripped(first_code_point(text).value))
    text.remove_prefix(first_code_point(text).bytes);
  while (!text.empty() && is_stripped(last_code_point(text).value))
    text.remove_suffix(last_code_point(text).bytes);
  return text;
}

std::size_t count(std::string_view text, std::string_view mark) {
  std::size_t n = 0;
  for (auto at = text.find(mark); at != npos; at = text.find(mark, at + mark.size())) ++n;
  return n;
}
// Returns the place of occurrence number n, counted from 1.
std::size_t nth(std::string_view text, std::string_view mark, std::size_t n) {
  std::size_t at = npos;
  for (std::size_t i = 0; i < n && (i == 0 || at != npos); ++i)
    at = text.find(mark, i == 0 ? 0 : at + mark.size());
  return at;
}

// Puts marks around a text, inside its white space, which templates may remove.
void put_marks(OrderedJson& value, const std::string& begin, const std::string& end) {
  auto& text = value.get_ref<std::string&>();
  const auto inner = trimmed(text);
  if (inner.empty()) return;
  const auto first = static_cast<std::size_t>(inner.data() - text.data());
  text.insert(first + inner.size(), end);
  text.insert(first, begin);
}

}  // namespace

RenderedChat::RenderedChat(const ChatWriter& writer, const Conversation& chat,
                           const ChatTargets& targets)
    : writer_(writer),
      targets_(targets),
      chat_(chat),
      original_(chat),
      characters_(data_of(chat) + writer.template_.jinja) {
  const auto& tokens = writer.masked_;
  for (auto& m : chat_.messages) m.fields = characters_.without_tokens(m.fields, tokens);
  chat_.tools = characters_.without_tokens(chat_.tools, tokens);
  chat_.variables = characters_.without_tokens(chat_.variables, tokens);
}

std::vector<OrderedJson> RenderedChat::marked_messages(Marks marks) const {
  std::vector<OrderedJson> all;
  for (std::size_t i = 0; i < chat_.messages.size(); ++i) {
    auto& m = all.emplace_back(chat_.messages[i].fields);
    if (marks == Marks::none) continue;
    const auto mark = [&](OrderedJson& value, MessagePart part) {
      put_marks(value, marks == Marks::both ? characters_.begin(i, part) : std::string(),
                characters_.end(i, part));
    };
    if (has_content_marks(i)) mark(m["content"], MessagePart::content);
    for (const auto key : thought_keys)
      if (const auto found = m.find(key); found != m.end() && found->is_string())
        mark(*found, MessagePart::thought);
    if (const auto calls = m.find("tool_calls"); calls != m.end())
      for (auto& call : *calls) mark(call["function"]["name"], MessagePart::call);
  }
  return all;
}

JinjaResult RenderedChat::render(std::vector<OrderedJson> messages, bool generation_prompt) const {
  if (writer_.reads_parts_)
    for (auto& m : messages)
      m["content"] = OrderedJson::array({{{"type", "text"}, {"text", m["content"]}}});
  return writer_.jinja_.render({messages, chat_.tools, chat_.variables, generation_prompt});
}

std::string RenderedChat::without_marks(std::string_view text) const {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto n = utf8_length(text[i]);
    if (!characters_.is_message_mark(text.substr(i))) out += text.substr(i, n);
    i += n;
  }
  return out;
}

void RenderedChat::render_all() {
  const auto plain = render(marked_messages(Marks::none), false);
  require(plain.error.empty(), "the chat template refuses the conversation: {}", plain.error);
  for (const auto marks : {Marks::both, Marks::ends}) {
    auto marked = render(marked_messages(marks), false);
    if (!marked.error.empty() || without_marks(marked.text) != plain.text) continue;
    marks_ = marks;
    text_ = std::move(marked.text);
    return;
  }
  text_ = plain.text;
}

std::optional<std::string> RenderedChat::part(std::size_t count, bool generation_prompt,
                                              const std::vector<OrderedJson>& more) const {
  auto messages = marked_messages(marks_);
  messages.resize(count);
  messages.insert(messages.end(), more.begin(), more.end());
  auto result = render(std::move(messages), generation_prompt);
  if (!result.error.empty()) return std::nullopt;
  return std::move(result.text);
}

bool RenderedChat::is_learnt(std::size_t message, std::size_t learnt_from) const {
  const auto& all = chat_.messages;
  const auto has_role = [&](const Message& m) {
    return std::ranges::find(targets_.roles, m.role) != targets_.roles.end();
  };
  if (message < learnt_from) return false;
  if (all[message].learnt) return *all[message].learnt;
  if (!has_role(all[message])) return false;
  return !targets_.only_last ||
         std::none_of(all.begin() + static_cast<std::ptrdiff_t>(message) + 1, all.end(), has_role);
}

std::size_t RenderedChat::data_begin(std::size_t message) const {
  std::size_t first = npos;
  if (marks_ == Marks::both)
    for (const auto part : parts)
      first = std::min(first, text_.find(characters_.begin(message, part)));
  return first;
}

std::size_t RenderedChat::data_end(std::string_view text, std::size_t message,
                                   std::string_view alone) const {
  std::size_t last = npos;
  if (marks_ == Marks::none) return last;
  for (const auto part : parts) {
    const auto mark = characters_.end(message, part);
    const auto at = alone.empty() ? text.rfind(mark) : nth(text, mark, count(alone, mark));
    if (at != npos) last = std::max(last == npos ? 0 : last, at + mark.size());
  }
  return last;
}

bool RenderedChat::has_content_marks(std::size_t message) const {
  const auto content = trimmed(chat_.messages[message].content());
  return !content.empty() && !content.ends_with("</think>");
}

bool RenderedChat::is_left_out(std::size_t message) const {
  return marks_ != Marks::none && has_content_marks(message) &&
         text_.find(characters_.end(message, MessagePart::content)) == npos;
}

bool RenderedChat::is_thought_left_out(std::size_t message) const {
  const auto& fields = chat_.messages[message].fields;
  const auto thinks = [&](std::string_view key) {
    const auto found = fields.find(key);
    return found != fields.end() && found->is_string() &&
           !trimmed(found->get_ref<const std::string&>()).empty();
  };
  return marks_ != Marks::none && std::ranges::any_of(thought_keys, thinks) &&
         text_.find(characters_.end(message, MessagePart::thought)) == npos;
}

// Templates without a generation prompt have the text before any other answer instead. Spaces at
// its end belong to the answer.
std::optional<std::string> RenderedChat::before_probe(std::size_t message) const {
  const auto mark = characters_.begin(message, MessagePart::content);
  auto text = part(message, false, {Message("assistant", mark + "x").fields});
  const auto at = text ? text->find(mark) : npos;
  if (at == npos) return std::nullopt;
  return text->substr(0, text->find_last_not_of(' ', at - 1) + 1);
}

// Compares the text before an answer with the prompt for this answer, from the last data that both
// contain.
std::size_t RenderedChat::turn_begin(std::size_t message) {
  const auto& role = chat_.messages[message].role;
  const auto own = data_begin(message);
  const auto refuse = [&](const char* why) {
    require(own != npos, "the place of message {} in the text is not certain: {}", message + 1,
            why);
    return std::string_view(text_).substr(0, own).find_last_not_of(' ') + 1;
  };
  if (role != "assistant") return refuse("the chat template changes contents");
  const auto limit = std::min(text_.size(), data_end(text_, message));
  std::size_t before = 0, anchor = npos;
  for (auto j = message; j-- > 0 && anchor == npos;)
    if (const auto at = data_end(text_, j); at != npos && at <= limit) {
      anchor = j;
      before = at;
    }
  const std::string_view own_text = std::string_view(text_).substr(before);
  const auto key = message > 0 ? chat_.messages[message - 1].role : std::string();
  if (const auto known = prompts_.find(key); marks_ != Marks::none && known != prompts_.end())
    if (own_text.starts_with(known->second)) return before + known->second.size();

  auto prompt = part(message, true);
  const auto without = part(message, false);
  if (prompt == without) prompt = before_probe(message);
  if (!prompt || !without) return refuse("the chat template does not write the messages before it");
  const auto from = [&](const std::string& text) -> std::optional<std::string_view> {
    const auto at = anchor == npos ? 0 : data_end(text, anchor);
    return at == npos ? std::nullopt : std::optional(std::string_view(text).substr(at));
  };
  const auto asked = from(*prompt), told = from(*without);
  if (!asked || !told) return refuse("the chat template leaves out the message before it");
  const auto n = common(own_text, *asked);
  const bool covers = asked->starts_with(*told) ? n >= told->size() : n == asked->size();
  if (n == 0 || !covers) return refuse("the generation prompt is not the text before it");
  if (n == asked->size()) prompts_[key] = *asked;
  return before + n;
}

std::size_t RenderedChat::turn_end(std::size_t message, std::size_t begin) {
  const bool is_last = message + 1 == chat_.messages.size();
  const auto next = is_last ? npos : data_begin(message + 1);
  const auto key = is_last ? std::string() : chat_.messages[message + 1].role;
  if (const auto known = tails_.find(key); next != npos && next > begin && known != tails_.end()) {
    const auto& [tail, token] = known->second;
    if (std::string_view(text_).substr(begin, next - begin).ends_with(tail))
      return next - tail.size() + (targets_.end_of_turn ? token : 0);
  }
  // Before another message if the conversation ends here, and at the end otherwise.
  const auto other =
      is_last ? part(message + 1, false, {Message("user", "x").fields}) : part(message + 1, false);
  // Text of the next messages may repeat the names of calls. If the conversation ends here, it has
  // none.
  auto at = data_end(text_, message, !is_last && other ? *other : std::string_view());
  auto other_at = other ? data_end(*other, message) : npos;
  const bool is_unmarked = at == npos;  // also for an empty answer
  if (is_unmarked) {
    at = begin;
    const bool same = other && other->starts_with(std::string_view(text_).substr(0, begin));
    require(same,
            "the end of message {} in the text is not certain: the chat template changes "
            "contents or earlier messages",
            message + 1);
    other_at = begin;
  }
  const auto rest = std::string_view(text_).substr(at);
  auto n = other_at == npos || (is_unmarked && is_last)
               ? rest.size()
               : common(rest, std::string_view(*other).substr(other_at));
  // A token directly behind the answer ends it even if it begins the next turn.
  const auto first = rest.find_first_not_of(spaces);
  std::optional<TextSpan> special;
  for (std::size_t i = 0; i < rest.size() && (i < n || (!special && i <= first));) {
    if (characters_.is_message_mark(rest.substr(i))) {
      n = std::min(n, i);
      break;
    }
    const auto token = writer_.special_.at(rest.substr(i));
    const auto length = token ? writer_.special_.texts()[*token].size() : utf8_length(rest[i]);
    if (token) special = TextSpan{i, i + length};
    i += length;
  }
  if (special && next != npos && at + special->end <= next)
    tails_[key] = {text_.substr(at + special->begin, next - at - special->begin),
                   special->end - special->begin};
  if (special) return at + (targets_.end_of_turn ? special->end : special->begin);
  return at + (targets_.end_of_turn || is_unmarked ? n : 0);
}

std::vector<TextSpan> RenderedChat::marked_targets(std::size_t learnt_from) const {
  const auto marks = generation_marks();
  const auto& all = chat_.messages;
  std::vector<std::size_t> answers;
  std::size_t learnt = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].role == "assistant") {
      answers.push_back(i);
      if (is_learnt(i, learnt_from)) ++learnt;
    }
  // An empty answer has no data by which it could be found, but its place among the marked parts.
  const bool one_each = count(text_, marks.begin) == answers.size();
  std::vector<TextSpan> spans;
  for (auto at = text_.find(marks.begin); at != npos; at = text_.find(marks.begin, at + 1)) {
    const auto begin = at + marks.begin.size(), end = text_.find(marks.end, begin);
    if (end == npos) break;
    std::optional<std::size_t> message;
    if (one_each) message = answers[count(std::string_view(text_).substr(0, at), marks.begin)];
    for (std::size_t i = 0; i < all.size() && !message; ++i)
      if (const auto data = data_end(text_, i); data != npos && data > begin && data <= end)
        message = i;
    require(message || learnt == 0 || learnt == answers.size(),
            "it is not certain to which message the text \"{}\" belongs, which the chat template "
            "marks with {{% generation %}}",
            without_marks(std::string_view(text_).substr(begin, end - begin)));
    if (message ? is_learnt(*message, learnt_from) : learnt > 0) spans.push_back({begin, end});
  }
  return spans;
}

void RenderedChat::require_own(std::size_t message, TextSpan span) const {
  const auto text =
      std::string_view(text_).substr(span.begin, std::max(span.end, span.begin) - span.begin);
  for (std::size_t i = 0; i < chat_.messages.size() && marks_ != Marks::none; ++i)
    for (const auto part : {MessagePart::content, MessagePart::thought})
      require(i == message || text.find(characters_.end(i, part)) == npos,
              "the chat template writes message {} inside message {}: divide that message", i + 1,
              message + 1);
}

std::vector<TextSpan> RenderedChat::targets(std::size_t learnt_from) {
  const bool marked = writer_.reads("generation") && text_.find(generation_marks().begin) != npos;
  auto spans = marked ? marked_targets(learnt_from) : std::vector<TextSpan>();
  for (std::size_t i = 0; i < chat_.messages.size(); ++i) {
    if (!is_learnt(i, learnt_from) || (marked && chat_.messages[i].role == "assistant")) continue;
    if (is_left_out(i) && data_end(text_, i) == npos) continue;
    const auto begin = turn_begin(i), end = turn_end(i, begin);
    require(end > begin || trimmed(chat_.messages[i].content()).empty(),
            "the end of message {} in the text is not certain: the chat template changes contents "
            "or earlier messages",
            i + 1);
    require_own(i, {begin, end});
    if (end > begin) spans.push_back({begin, end});
  }
  std::ranges::sort(spans, {}, &TextSpan::begin);
  for (std::size_t i = 1; i < spans.size(); ++i)
    spans[i].begin = std::max(spans[i].begin, spans[i - 1].end);
  return spans;
}

std::size_t RenderedChat::common(std::string_view a, std::string_view b) const {
  constexpr std::size_t longest_token = 256;
  auto n = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  if (n == a.size() || n == b.size()) return n;
  while (n > 0 && (static_cast<unsigned char>(a[n]) & 0xc0) == 0x80) --n;
  for (auto i = n; i-- > (n > longest_token ? n - longest_token : 0);)
    for (const auto text : {a.substr(i), b.substr(i)}) {
      const auto token = writer_.special_.at(text);
      const auto close = text.starts_with('<') ? text.find_first_of("<> \t\r\n", 1) : npos;
      const bool has_form = close != npos && text[close] == '>';
      const auto length = token      ? writer_.special_.texts()[*token].size()
                          : has_form ? close + 1
                                     : 0;
      if (i + length > n) n = i;
    }
  return n;
}

ChatText RenderedChat::finished(std::vector<TextSpan> targets) const {
  ChatText out;
  std::vector<std::size_t*> places;
  for (auto& t : targets) places.insert(places.end(), {&t.begin, &t.end});
  auto place = places.begin();
  for (std::size_t i = 0; i <= text_.size();) {
    for (; place != places.end() && **place <= i; ++place) **place = out.text.size();
    if (i == text_.size()) break;
    const auto rest = std::string_view(text_).substr(i);
    if (const auto token = characters_.token_at(rest)) {
      out.text += writer_.masked_.texts()[*token];
      out.plain_names.push_back(writer_.masked_.texts()[*token]);
    } else if (const auto found = writer_.special_.at(rest)) {
      const auto& token_text = writer_.special_.texts()[*found];
      out.special.push_back({out.text.size(), out.text.size() + token_text.size()});
      out.text += token_text;
      i += token_text.size();
      continue;
    } else if (!characters_.is_mark(rest)) {
      out.text += rest.substr(0, utf8_length(rest[0]));
    }
    i += utf8_length(rest[0]);
  }
  for (const auto& t : targets)
    if (t.end > t.begin) out.targets.push_back(t);
  for (std::size_t i = 0; i < chat_.messages.size(); ++i) {
    if (is_left_out(i)) out.left_out.push_back(i + 1);
    if (is_thought_left_out(i)) out.left_out_thoughts.push_back(i + 1);
  }
  return out;
}

// A template may escape the characters that replace tokens, which would then remain in the text.
void RenderedChat::require_restored(const ChatText& written, bool generation_prompt) const {
  if (chat_ == original_) return;
  std::vector<OrderedJson> messages;
  for (const auto& m : original_.messages) messages.push_back(m.fields);
  RenderedChat plain(*this);
  plain.chat_ = original_;
  auto result = plain.render(std::move(messages), generation_prompt);
  if (!result.error.empty()) return;  // the template refuses the names of its tokens
  plain.marks_ = Marks::none;
  plain.text_ = std::move(result.text);
  require(plain.finished({}).text == written.text,
          "a message or a tool contains the name of a special token, which the chat template "
          "changes: remove the name");
}

ChatText RenderedChat::write(std::size_t learnt_from) {
  render_all();
  auto written = finished(targets(learnt_from));
  require_restored(written, false);
  return written;
}

ChatText RenderedChat::question() const {
  RenderedChat asked(*this);
  auto result = render(marked_messages(Marks::none), true);
  require(result.error.empty(), "the chat template refuses the conversation: {}", result.error);
  asked.text_ = std::move(result.text);
  auto written = asked.finished({});
  require_restored(written, true);
  return written;
}

}  // namespace trireme
