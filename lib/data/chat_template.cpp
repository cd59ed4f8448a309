#include "lib/data/chat_template.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/nearest.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

namespace {

using Roles = std::initializer_list<const char*>;

// OpenAI's ChatML and what grew out of it.
ChatTemplate chatml(const char* name, Roles roles, const char* default_system = "") {
  ChatTemplate t;
  t.name = name;
  for (const auto* role : roles)
    t.turns[role] = {fmt::format("<|im_start|>{}\n", role), "<|im_end|>\n"};
  t.special = {"<|im_start|>", "<|im_end|>"};
  t.default_system = default_system;
  return t;
}

// A begin of the text for each question, as each answer has an end.
ChatTemplate llama2() {
  ChatTemplate t;
  t.name = "llama2";
  t.turns["user"] = {"{bos}[INST] ", " [/INST]"};
  t.turns["assistant"] = {" ", " {eos}"};
  t.turns["system"] = {"<<SYS>>\n", "\n<</SYS>>\n\n"};
  t.system = ChatTemplate::SystemPlace::first_user_turn;
  t.special = {"{bos}", "{eos}"};
  t.trimmed = t.alternating = true;
  return t;
}

ChatTemplate llama3() {
  ChatTemplate t;
  t.name = "llama3";
  for (const auto* role : {"system", "user", "assistant"})
    t.turns[role] = {fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role), "<|eot_id|>"};
  t.begin = "{bos}";
  t.special = {"{bos}", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  t.trimmed = true;
  return t;
}

ChatTemplate mistral() {
  ChatTemplate t;
  t.name = "mistral";
  t.turns["user"] = {"[INST] ", " [/INST]"};
  t.turns["assistant"] = {"", "{eos}"};
  t.begin = "{bos}";
  t.special = {"{bos}", "{eos}"};
  t.alternating = true;
  return t;
}

ChatTemplate zephyr() {
  ChatTemplate t;
  t.name = "zephyr";
  for (const auto* role : {"system", "user", "assistant"})
    t.turns[role] = {fmt::format("<|{}|>\n", role), "{eos}\n"};
  t.special = {"{eos}"};
  return t;
}

ChatTemplate gemma() {
  ChatTemplate t;
  t.name = "gemma";
  t.turns["user"] = {"<start_of_turn>user\n", "<end_of_turn>\n"};
  t.turns["assistant"] = {"<start_of_turn>model\n", "<end_of_turn>\n"};
  t.begin = "{bos}";
  t.special = {"{bos}", "<start_of_turn>", "<end_of_turn>"};
  t.trimmed = t.alternating = true;
  return t;
}

// An answer without a thought, as with enable_thinking=False.
ChatTemplate qwen3() {
  auto t = chatml("qwen3", {"system", "user", "assistant"});
  t.before_last = "<think>\n\n</think>\n\n";
  t.special.insert(t.special.end(), {"<think>", "</think>"});
  t.refused = "</think>";
  return t;
}

std::vector<ChatTemplate> known() {
  const Roles three{"system", "user", "assistant"}, four{"system", "user", "assistant", "tool"};
  return {
      chatml("chatml", four),
      chatml("qwen2", four, "You are a helpful assistant."),
      chatml("qwen2.5", three,
             "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
      qwen3(),
      chatml("smollm2", four,
             "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
      llama2(),
      llama3(),
      mistral(),
      zephyr(),
      gemma(),
  };
}

// The token that the tokenizer's configuration names, or the usual one if it is a token.
std::optional<std::string> token_of(const Tokenizer& tokenizer, const char* key,
                                    std::string_view usual) {
  if (const auto config = tokenizer.file("tokenizer_config.json"))
    if (auto token = token_named(parse_object(*config, "tokenizer_config.json"), key)) return token;
  if (tokenizer.id_of(usual)) return std::string(usual);
  return std::nullopt;
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

template <class F>
void each_text(ChatTemplate& t, const F& f) {
  for (auto& [role, turn] : t.turns) {
    f(turn.before);
    f(turn.after);
  }
  for (auto* text : {&t.begin, &t.end, &t.before_last}) f(*text);
  for (auto& text : t.special) f(text);
}

}  // namespace

std::vector<std::string> chat_template_names() {
  std::vector<std::string> names;
  for (const auto& t : known()) names.push_back(t.name);
  return names;
}

ChatTemplate chat_template_named(std::string_view name) {
  auto all = known();
  const auto found = std::ranges::find(all, name, &ChatTemplate::name);
  const auto names = chat_template_names();
  const auto near = nearest_name(name, names);
  require(found != all.end(), "\"{}\" is no chat template{}: there are {}, or a file", name,
          near.empty() ? "" : fmt::format(", did you mean {}", near), fmt::join(names, ", "));
  return std::move(*found);
}

ChatTemplate with_tokens_of(ChatTemplate t, const Tokenizer& tokenizer) {
  for (const auto& [mark, key, usual] :
       {std::tuple{"{bos}", "bos_token", "<s>"}, {"{eos}", "eos_token", "</s>"}}) {
    bool used = false;
    each_text(t, [&, mark = mark](const std::string& text) {
      used = used || text.find(mark) != std::string::npos;
    });
    if (!used) continue;
    const auto token = token_of(tokenizer, key, usual);
    require(token && !token->empty(),
            "the chat template {} writes {}, and the tokenizer names no {}: choose another "
            "--template",
            t.name, mark, key);
    each_text(t, [&, mark = mark](std::string& text) { replace(text, mark, *token); });
  }
  for (const auto& text : t.special)
    require(tokenizer.id_of(text).has_value(),
            "the chat template {} writes the token {}, which the tokenizer lacks: choose another "
            "--template, or write one in which it is plain text",
            t.name, text);
  return t;
}

}  // namespace trireme
