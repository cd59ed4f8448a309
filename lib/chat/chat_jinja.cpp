#include "lib/chat/chat_jinja.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/json.hpp"
#include "lib/chat/chat_jinja_text.hpp"
#include "lib/chat/chat_template_file.hpp"

namespace trireme {

namespace {

// Hashes of the templates in model repositories, each after normalized().
struct Known {
  std::string_view hash, name;
};
constexpr Known known[] = {
    {"f0a6a8278439fdb056191e205a440263", "chatml"},
    {"e580c2da83415028d5d943bd0bd9082f", "qwen2"},
    {"98f63cc3d421d28f99ab995e9629dacd", "smollm2"},
    {"97aac26c37e4a675cb7c5112dfc4a3b0", "llama2"},
    {"8f20b9eda669ce10b97891b7adc1beb8", "llama3"},
    {"09facc0e4aa943189799ad6e2dea0594", "llama3"},
    {"f395fc5daa794129a5d004210ebce758", "mistral"},
    {"5ae4edc1a6c08aa61db34e9fc60441d8", "zephyr"},
    {"8b30bb763d138e692c2e86beabccd2a4", "gemma"},
    {"05ac78533d6fb928da8ae4616203881a", "llama3.1"},
    {"272f380facdb6472da83cc145815d4a5", "mistral-v3"},
};

// Texts by which a template is recognized. The first entry whose texts all occur is used.
struct Marks {
  std::string_view name;
  std::vector<std::string_view> texts;
};
const std::vector<Marks>& marks() {
  static const std::vector<Marks> all{
      {"qwen3", {"<|im_start|>", "last_query_index", "</think>"}},
      {"qwen2.5", {"<|im_start|>", "created by Alibaba Cloud"}},
      {"smollm2", {"<|im_start|>", "named SmolLM"}},
      {"qwen2", {"<|im_start|>", "You are a helpful assistant."}},
      {"chatml", {"<|im_start|>", "<|im_end|>"}},
      {"llama3.1", {"<|start_header_id|>", "Cutting Knowledge Date: December 2023"}},
      {"llama3", {"<|start_header_id|>", "<|eot_id|>"}},
      {"llama2", {"<<SYS>>", "[INST]"}},
      {"mistral-v3", {"[AVAILABLE_TOOLS] [", "[TOOL_CALLS] [", "[INST] "}},
      {"mistral", {"[INST]", "[/INST]"}},
      {"gemma", {"<start_of_turn>", "<end_of_turn>"}},
      {"zephyr", {"<|user|>", "<|assistant|>", "eos_token"}},
  };
  return all;
}

std::string normalized(std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool line_end = text.substr(i).starts_with("\\n");
    all.push_back(line_end ? '\n' : text[i]);
    if (line_end) ++i;
  }
  const auto begin = all.find_first_not_of(" \n\r\t");
  if (begin == std::string::npos) return {};
  return all.substr(begin, all.find_last_not_of(" \n\r\t") + 1 - begin);
}

// Returns the chat template in a config. It is a text, or the one with the name "default" in a
// list.
std::optional<std::string> jinja_in(const Json& config) {
  if (!config.is_object() || !config.contains("chat_template")) return std::nullopt;
  const auto& t = config.at("chat_template");
  if (t.is_string()) return t.get<std::string>();
  if (!t.is_array()) return std::nullopt;
  for (const auto& one : t)
    if (one.is_object() && one.value("name", "") == "default") return one.value("template", "");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> own_jinja(const Tokenizer& tokenizer) {
  if (auto text = tokenizer.file("chat_template.jinja")) return text;
  if (const auto config = tokenizer.file("tokenizer_config.json"))
    return jinja_in(parse_object(*config, "tokenizer_config.json"));
  return std::nullopt;
}

std::string known_jinja(std::string_view text) {
  const auto all = normalized(text);
  const auto hash = to_string(hash128(std::string_view(all)));
  const auto* const found = std::ranges::find(known, hash, &Known::hash);
  if (found != std::end(known)) return std::string(found->name);
  for (const auto& name : chat_template_names())
    if (all == normalized(jinja_text(chat_template_named(name)))) return name;
  return {};
}

std::string_view similar_jinja(std::string_view text) {
  for (const auto& [name, texts] : marks())
    if (std::ranges::all_of(texts, [&](auto t) { return text.find(t) != std::string_view::npos; }))
      return name;
  return {};
}

constexpr std::string_view comment_begins = "{#- Trireme's chat template, of which this is made:\n",
                           comment_ends = "-#}\n";

std::string exported_jinja(const ChatTemplate& t) {
  auto text = jinja_text(t);
  const auto file = chat_template_text(t);
  if (!known_jinja(text).empty() || file.find("#}") != std::string::npos) return text;
  return fmt::format("{}{}{}{}", comment_begins, file, comment_ends, text);
}

// Returns the chat template whose exported text is exactly `text`, or nothing.
static std::optional<ChatTemplate> exported_in(std::string_view text) {
  const auto end = text.find(comment_ends);
  if (!text.starts_with(comment_begins) || end == std::string_view::npos) return std::nullopt;
  const auto file = text.substr(comment_begins.size(), end - comment_begins.size());
  try {
    auto t = parse_chat_template(file, "the tokenizer's chat template");
    if (normalized(exported_jinja(t)) == normalized(text)) return t;
  } catch (const Error&) {  // somebody changed the text
  }
  return std::nullopt;
}

ChatTemplate chat_template_of(const Tokenizer& tokenizer) {
  const auto text = own_jinja(tokenizer);
  require(text.has_value(),
          "the tokenizer has no chat template: choose one with --template ({}, or a file)",
          fmt::join(chat_template_names(), ", "));
  if (auto exported = exported_in(*text)) return std::move(*exported);
  const auto name = known_jinja(*text);
  if (name.empty()) {
    const auto similar = similar_jinja(*text);
    fail(
        "the tokenizer's chat template is unknown{}: choose one with --template ({}, or a file), "
        "and check that both templates write the same text",
        similar.empty() ? "" : fmt::format("; it looks like {}", similar),
        fmt::join(chat_template_names(), ", "));
  }
  return chat_template_named(name);
}

}  // namespace trireme
