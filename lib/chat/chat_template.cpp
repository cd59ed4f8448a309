#include "lib/chat/chat_template.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/chat/chat_named.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

// Returns the token that the tokenizer's files name. If there are no files, returns the usual token
// if the tokenizer has it.
std::optional<std::string> token_of(const Tokenizer& tokenizer, const char* key,
                                    std::string_view usual) {
  HfFiles files;
  for (const auto* const name : token_naming_files)
    if (auto text = tokenizer.file(name)) files.emplace(name, std::move(*text));
  if (!files.empty()) return token_named(files, key, "the tokenizer");
  if (tokenizer.id_of(usual)) return std::string(usual);
  return std::nullopt;
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  std::string all;
  for (const auto& part : parts_of(text, {what})) all += part.stands_for_other ? with : part.text;
  text = std::move(all);
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Calls f for each text of the template that may contain special tokens.
template <class F>
void each_text(ChatTemplate& t, const F& f) {
  for (auto& [role, turn] : t.turns) {
    for (auto* text : {&turn.before, &turn.after, &turn.group_before, &turn.group_after}) f(*text);
  }
  for (auto* text : {&t.begin, &t.end, &t.before_last, &t.calls.each, &t.calls.between,
                     &t.calls.before, &t.calls.after, &t.tools.before, &t.tools.each,
                     &t.tools.after, &t.tools.apart, &t.tools.between, &t.tools.system_before})
    f(*text);
}

// Returns the template's texts that are written like contents, where special tokens are plain text.
std::vector<std::string> plain_texts(const ChatTemplate& t) {
  std::vector<std::string> all{t.default_system};
  const auto system = t.turns.find("system");
  if (t.system != SystemPlace::own_turn && system != t.turns.end())
    all.insert(all.end(), {system->second.before, system->second.after});
  return all;
}

constexpr std::string_view bos = "{bos}", eos = "{eos}";

// Replaces `mark` by the tokenizer's token. The token is then a special text of the template, even
// if the template does not list the mark.
void resolve(ChatTemplate& t, const Tokenizer& tokenizer, std::string_view mark, const char* key,
             std::string_view usual) {
  bool used = std::erase(t.special, mark) > 0;
  each_text(t, [&](const std::string& text) { used = used || holds(text, mark); });
  if (!used) return;
  const auto token = token_of(tokenizer, key, usual);
  require(
      token && !token->empty(),
      "the chat template {} writes {}, but the tokenizer names no {}: choose another --template",
      t.name, mark, key);
  each_text(t, [&](std::string& text) { replace(text, mark, *token); });
  t.special.push_back(*token);
}

// Returns the text like "<|user|>" with which `text` begins, or an empty text.
std::string_view token_form(std::string_view text) {
  if (!text.starts_with('<')) return {};
  const auto end = text.find_first_of("<> \t\r\n", 1);
  const bool closed = end != std::string_view::npos && end > 1 && text[end] == '>';
  return closed ? text.substr(0, end + 1) : std::string_view();
}

std::size_t plain_at(const ChatTemplate& t, std::string_view text) {
  std::size_t most = 0;
  for (const auto& p : t.plain)
    if (text.starts_with(p)) most = std::max(most, p.size());
  return most;
}

// Throws Error if a text of the template looks like a special token but is not a token. The
// template then belongs to another model, and training would treat this text as plain text.
void require_tokens(const ChatTemplate& t, const Tokenizer& tokenizer, std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto rest = text.substr(i);
    const auto form = token_form(rest);
    const auto known = std::max(special_at(t, rest), plain_at(t, rest));
    require(form.empty() || known > 0 || tokenizer.id_of(form),
            "the chat template {} writes {}, which looks like a special token, but is not a token "
            "of the tokenizer: use the tokenizer and the template of the same model. If it is "
            "meant as plain text, write plain = [\"{}\"] into the template's file",
            t.name, form, form);
    i += std::max({known, form.size(), std::size_t{1}});
  }
}

}  // namespace

std::vector<std::string> chat_template_names() {
  std::vector<std::string> names;
  for (const auto& t : named_chat_templates()) names.push_back(t.name);
  return names;
}

ChatTemplate chat_template_named(std::string_view name) {
  auto all = named_chat_templates();
  const auto found = std::ranges::find(all, name, &ChatTemplate::name);
  const auto names = chat_template_names();
  const auto near = nearest_name(name, names);
  require(found != all.end(), "\"{}\" is not a chat template{}: choose {}, or a file", name,
          near.empty() ? "" : fmt::format(" (did you mean {}?)", near), fmt::join(names, ", "));
  return std::move(*found);
}

ChatTemplate with_tokens_of(ChatTemplate t, const Tokenizer& tokenizer) {
  for (const auto mark : {bos, eos})
    for (const auto& text : plain_texts(t))
      require(!holds(text, mark),
              "the chat template {} has {} in the system text, where it would be plain text: move "
              "it to \"begin\" or to the text before a turn",
              t.name, mark);
  resolve(t, tokenizer, bos, "bos_token", "<s>");
  resolve(t, tokenizer, eos, "eos_token", "</s>");
  for (const auto& token : tokenizer.special_tokens()) {
    each_text(t, [&](const std::string& text) {
      if (holds(text, token) && std::ranges::find(t.special, token) == t.special.end())
        t.special.push_back(token);
    });
    for (const auto& text : plain_texts(t))
      require(!holds(text, token),
              "the chat template {} has the special token {} in the system text, where it would be "
              "plain text: move it to \"begin\" or to the text before a turn, or remove it",
              t.name, token);
  }
  for (const auto& text : t.special)
    require(tokenizer.id_of(text).has_value(),
            "the chat template {} writes the token {}, which the tokenizer does not have: choose "
            "another --template. If it is meant as plain text, move it from \"special\" to "
            "\"plain\" in the template's file (`trireme tokenize --show-template` prints one)",
            t.name, text);
  each_text(t, [&](const std::string& text) { require_tokens(t, tokenizer, text); });
  return t;
}

bool writes_id(std::string_view text) {
  return holds(text, "{id}");
}

std::vector<ChatPart> parts_of(std::string_view text, const std::vector<std::string_view>& names) {
  std::vector<ChatPart> parts;
  std::size_t begin = 0;
  const auto end_text = [&](std::size_t end) {
    if (end > begin) parts.push_back({text.substr(begin, end - begin), false});
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto rest = text.substr(i);
    const auto name = std::ranges::find_if(names, [&](auto n) { return rest.starts_with(n); });
    if (name == names.end()) {
      ++i;
      continue;
    }
    end_text(i);
    parts.push_back({*name, true});
    begin = i += name->size();
  }
  end_text(text.size());
  return parts;
}

std::size_t special_at(const ChatTemplate& t, std::string_view text) {
  std::size_t most = 0;
  for (const auto& s : t.special)
    if (text.starts_with(s)) most = std::max(most, s.size());
  return most;
}

std::string begin_of_calls(const ChatTemplate& t) {
  const auto& before = t.turns.at("assistant").before;
  return before.substr(0, before.find_last_not_of(' ') + 1);
}

std::string begin_of_answer(const ChatTemplate& t) {
  if (t.before_last.empty()) return begin_of_calls(t);
  return t.turns.at("assistant").before + t.before_last;
}

std::string end_of_turn(const ChatTemplate& t) {
  const std::string_view after = t.turns.at("assistant").after;
  for (std::size_t i = 0; i < after.size(); ++i)
    if (const auto n = special_at(t, after.substr(i)); n > 0)
      return std::string(after.substr(i, n));
  return {};
}

}  // namespace trireme
