#include "lib/chat/chat_template.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/utf8_bytes.hpp"
#include "lib/chat/chat_named.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

constexpr std::size_t longest_chat_template = std::size_t{1} << 20;

std::string without_last_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Returns the template in a config. It is a text, or a list of templates with names.
std::optional<std::string> jinja_in(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return std::nullopt;
  const auto named = [&](std::string_view name) -> std::optional<std::string> {
    for (const auto& one : *found)
      if (one.is_object() && one.value("name", "") == name) return one.value("template", "");
    return std::nullopt;
  };
  const auto plain = named("default"), with_tools = named("tool_use");
  if (!plain || !with_tools) return plain;
  return fmt::format("{{% if tools %}}{}{{% else %}}{}{{% endif %}}",
                     without_last_line_end(*with_tools), without_last_line_end(*plain));
}

bool is_jinja(std::string_view text) {
  return text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
}

}  // namespace

std::vector<std::string> chat_template_names() {
  std::vector<std::string> names;
  for (const auto& t : named_chat_templates()) names.emplace_back(t.name);
  return names;
}

ChatTemplate chat_template_named(std::string_view name) {
  const auto all = named_chat_templates();
  const auto found = std::ranges::find(all, name, &NamedChat::name);
  const auto names = chat_template_names();
  const auto near = nearest_name(name, names);
  require(found != all.end(), "\"{}\" is not a chat template{}: choose {}, or a file", name,
          near.empty() ? "" : fmt::format(" (did you mean {}?)", near), fmt::join(names, ", "));
  return {std::string(name), std::string(found->jinja)};
}

ChatTemplate read_chat_template(const std::string& file) {
  const auto text = read_text(file);
  require(text.size() <= longest_chat_template,
          "{} is longer than 1 MiB, which no chat template is", file);
  require(well_formed_bytes(text) == text.size(), "{} is not UTF-8 text", file);
  require(is_jinja(text), "{} is not a Jinja program. {}", file, advice_for_toml);
  return {file, text};
}

std::optional<ChatTemplate> own_chat_template(const Tokenizer& tokenizer) {
  auto text = tokenizer.file("chat_template.jinja");
  if (const auto config = tokenizer.file("tokenizer_config.json"); !text && config)
    text = jinja_in(parse_object(*config, "tokenizer_config.json"));
  if (!text) return std::nullopt;
  return ChatTemplate{"the tokenizer's chat template", std::move(*text)};
}

OrderedJson token_variables(const Tokenizer& tokenizer) {
  auto variables = OrderedJson::object();
  HfFiles files;
  for (const auto* const name : token_naming_files)
    if (auto text = tokenizer.file(name)) files.emplace(name, std::move(*text));
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (auto token = token_named(files, key, "the tokenizer")) variables[key] = std::move(*token);
  if (!files.empty()) return variables;
  if (tokenizer.id_of("<s>")) variables["bos_token"] = "<s>";
  if (tokenizer.id_of("</s>")) variables["eos_token"] = "</s>";
  return variables;
}

std::vector<std::string> missing_tokens(const ChatTemplate& t, const Tokenizer& tokenizer) {
  std::vector<std::string> missing;
  for (auto i = t.jinja.find("<|"); i != std::string::npos; i = t.jinja.find("<|", i + 2)) {
    const auto end = t.jinja.find_first_of("<> '\"\t\r\n", i + 2);
    if (end == std::string::npos || t.jinja[end] != '>' || t.jinja[end - 1] != '|') continue;
    const auto text = t.jinja.substr(i, end + 1 - i);
    if (!tokenizer.id_of(text) && std::ranges::find(missing, text) == missing.end())
      missing.push_back(text);
  }
  return missing;
}

std::string chat_text_of(const StoredChat& chat) {
  OrderedJson all{{"jinja", chat.jinja}, {"end_of_answer", chat.end_of_answer}};
  if (!chat.variables.empty()) all["variables"] = chat.variables;
  return all.dump();
}

std::optional<StoredChat> stored_chat(std::string_view text, std::string_view where) {
  if (!text.starts_with('{')) return std::nullopt;
  const auto object = parse_object(text, where);
  const JsonFields f{object};
  StoredChat chat{f.text("jinja"), f.text("end_of_answer")};
  if (object.contains("variables")) chat.variables = f.object("variables");
  return chat;
}

}  // namespace trireme
