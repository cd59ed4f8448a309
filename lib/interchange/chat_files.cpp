#include "lib/interchange/chat_files.hpp"

#include <algorithm>
#include <string>

#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/chat/chat_template.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

constexpr const char *config_file = "tokenizer_config.json", *jinja_file = "chat_template.jinja";

// Returns the template for programs to which the exported files do not name all tokens.
std::string with_tokens(const std::string& jinja, const OrderedJson& variables,
                        const HfFiles& files, std::string_view where) {
  std::string sets;
  for (const auto& [key, token] : variables.items())
    if (jinja.find(key) != std::string::npos && !token_named(files, key.c_str(), where))
      sets += fmt::format("{{%- set {} = '{}' -%}}\n", key, token.get<std::string>());
  return sets + jinja;
}

}  // namespace

void add_chat_template(TokenizerFiles& files, const TokenizerSpec& spec, std::string_view where) {
  if (spec.chat.empty() || spec.kind == TokenizerKind::none) return;
  const auto trained = stored_chat(spec.chat, fmt::format("the chat template in {}", where));
  if (!trained) {
    log_warning("the chat template with which {} was trained is not exported. {}", where,
                advice_for_toml);
    return;
  }
  const auto tokenizer = make_tokenizer(spec, where);
  auto& ends = files.ids.ends;
  if (const auto end = tokenizer->id_of(trained->end_of_answer);
      end && std::ranges::find(ends, *end) == ends.end())
    ends.insert(ends.begin(), *end);
  if (!trained->variables.empty())
    log_warning(
        "{} was trained with the chat template's variables {}: pass the same to "
        "apply_chat_template",
        where, trained->variables.dump());

  const auto own = own_chat_template(*tokenizer);
  if (own && own->jinja == trained->jinja) return;
  if (own)
    log_warning(
        "{} was trained with a chat template that differs from its tokenizer's. The export "
        "contains the template that was used in training",
        where);
  const auto config = files.contents.find(config_file);
  auto json =
      config == files.contents.end() ? Json::object() : parse_object(config->second, config_file);
  json["chat_template"] =
      with_tokens(trained->jinja, token_variables(*tokenizer), files.contents, where);
  files.contents[config_file] = to_lines(json);
  files.contents.erase(jinja_file);
}

}  // namespace trireme
