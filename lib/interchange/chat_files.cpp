#include "lib/interchange/chat_files.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/chat/chat_jinja.hpp"
#include "lib/chat/chat_jinja_text.hpp"
#include "lib/chat/chat_template_file.hpp"

namespace trireme {

namespace {

constexpr const char *config_file = "tokenizer_config.json", *jinja_file = "chat_template.jinja";

// Returns true if the tokenizer's own template is `t`, or resembles it. A template that only
// resembles `t` is the model's own, and it may do more, such as write calls of tools.
bool is_own(const std::string& own, const ChatTemplate& t) {
  if (own == jinja_text(t) || own == exported_jinja(t)) return true;
  auto name = known_jinja(own);
  if (name.empty()) name = similar_jinja(own);
  if (name.empty()) return false;
  auto named = chat_template_named(name);
  named.name = t.name;
  return named == t;
}

// Warns about special texts that transformers does not find. It only finds tokens that are special
// or were added.
void warn_of_words(const ChatTemplate& t, const Tokenizer& tokenizer) {
  for (const auto& token : t.special) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(token, TextPlace::continuation, ids);
    if (tokenizer.spec().kind == TokenizerKind::huggingface &&
        ids != std::vector{tokenizer.id_of(token).value()})
      log_warning(
          "the chat template contains the token {}, which is not an added token of the tokenizer. "
          "apply_chat_template of transformers encodes it as plain text, with different ids",
          token);
  }
}

}  // namespace

void add_chat_template(TokenizerFiles& files, const TokenizerSpec& spec, std::string_view where) {
  if (spec.chat.empty() || spec.kind == TokenizerKind::none) return;
  const auto name = fmt::format("the chat template in {}", where);
  const auto t = parse_chat_template(spec.chat, name);
  const auto tokenizer = make_tokenizer(spec, where);
  const auto full = with_tokens_of(t, *tokenizer);

  auto& ends = files.ids.ends;
  if (const auto text = end_of_turn(full); !text.empty()) {
    const auto end = tokenizer->id_of(text).value();
    if (std::ranges::find(ends, end) == ends.end()) ends.insert(ends.begin(), end);
  }

  const auto own = own_jinja(*tokenizer);
  if (own && is_own(*own, t)) return;
  if (own)
    log_warning(
        "{} was trained with a chat template that differs from its tokenizer's. The export "
        "contains the template that was used in training",
        where);
  warn_of_words(full, *tokenizer);
  // In Jinja, bos_token and eos_token are the tokens that the files name.
  const bool named = token_named(files.contents, "bos_token", where) &&
                     token_named(files.contents, "eos_token", where);
  const auto config = files.contents.find(config_file);
  auto json =
      config == files.contents.end() ? Json::object() : parse_object(config->second, config_file);
  json["chat_template"] = exported_jinja(named ? t : full);
  files.contents[config_file] = to_lines(json);
  files.contents.erase(jinja_file);
}

}  // namespace trireme
