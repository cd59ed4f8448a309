#include "app/tokenizers.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/chat/messages.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/tokenizer/same_tokenizer.hpp"

namespace trireme {

TokenizerSpec tokenizer_of(const CheckpointMeta& meta) {
  return {kind_named(meta.tokenizer_kind), meta.tokenizer, meta.chat_template};
}

void require_tokens_of(const CheckpointMeta& meta, const std::string& model,
                       const TokenizerSpec& files) {
  const auto there = tokenizer_of(meta);
  require(compatible(there, model, files, "the token files"),
          "the token files were made with the tokenizer {}, but {} is a model of the tokenizer {}, "
          "whose ids have other meanings. Tokenize the text again with the model's tokenizer "
          "(--tokenizer)",
          files.identity(), model, there.identity());
  if (!files.chat.empty() && !there.chat.empty() && files.chat != there.chat)
    log_warning(
        "the conversations in the token files have another chat template than those that {} was "
        "trained with. If you did not intend this, tokenize them again",
        model);
  if (files.chat.empty() || !there.chat.empty() || there.kind != TokenizerKind::huggingface) return;
  const auto own = own_chat_template(*make_tokenizer(there, model));
  const auto used = stored_chat(files.chat, "the chat template of the token files");
  if (own && used && own->jinja != used->jinja)
    log_warning(
        "the conversations in the token files have another chat template than the tokenizer of {}. "
        "If you did not intend this, tokenize them with --tokenizer and the folder of that model",
        model);
}

// Warns if token files have different chat templates, because checkpoints contain only one.
static void warn_of_chat_templates(const Dataset& training,
                                   std::span<const ValidationData> held_out) {
  auto ranges = training.ranges();
  for (const auto& v : held_out)
    ranges.insert(ranges.end(), v.data.ranges().begin(), v.data.ranges().end());
  std::string first, theirs;
  for (const auto& range : ranges) {
    const auto chat = range.file.header().chat_bytes > 0 ? range.file.tokenizer().chat : "";
    if (chat.empty() || chat == first) continue;
    const auto name = range.file.path().string();
    if (!first.empty())
      log_warning(
          "the conversations in {} and {} have different chat templates. Checkpoints contain the "
          "first template, which `generate --chat` and `export` use",
          theirs, name);
    if (!first.empty()) return;
    first = chat;
    theirs = name;
  }
}

TokenizerSpec tokenizer_of_files(const Dataset& training,
                                 std::span<const ValidationData> held_out) {
  const auto tokenizer = training.tokenizer();
  warn_of_chat_templates(training, held_out);
  for (const auto& v : held_out) {
    const auto other = v.data.tokenizer();
    const auto key = v.name.empty() ? "data." + v.label() : v.label();
    require(compatible(tokenizer, "data.path", other, key),
            "the files of data.path were tokenized with {}, but those of {} with {}: use one "
            "tokenizer for all files",
            tokenizer.identity(), key, other.identity());
  }
  return tokenizer;
}

TokenizerSpec tokenizer_of_run(const Deck& deck, TokenizerSpec of_files,
                               const CheckpointReader* from) {
  std::optional<CheckpointReader> initial;
  if (!from && !deck.init_from.empty()) from = &initial.emplace(find_checkpoint(deck.init_from));
  if (!from) return of_files;
  require_tokens_of(from->meta(), from->directory().string(), of_files);
  return merged(of_files, tokenizer_of(from->meta()));
}

void add_chat_options(CLI::App& command, ChatOptions& o, CLI::Option* chat) {
  command
      .add_option("--template", o.chat_template,
                  fmt::format("Chat template that formats conversations: {}, or a Jinja file "
                              "(default: the one of the checkpoint or tokenizer)",
                              fmt::join(chat_template_names(), ", ")))
      ->option_text("NAME|FILE")
      ->needs(chat);
  command
      .add_option("--template-kwargs", o.variables,
                  "JSON object of variables for the chat template, such as "
                  "'{\"enable_thinking\": false}'")
      ->option_text("JSON")
      ->needs(chat);
}

ChatTemplate chat_template_given(const std::string& given) {
  const bool file = given.find_first_of("./") != std::string::npos;
  const auto names = chat_template_names();
  const bool named = std::ranges::find(names, given) != names.end();
  return !named && (file || std::filesystem::is_regular_file(given)) ? read_chat_template(given)
                                                                     : chat_template_named(given);
}

static OrderedJson variables_of(const ChatOptions& o) {
  if (o.variables.empty()) return OrderedJson::object();
  OrderedJson variables;
  try {
    variables = parse_ordered_json(o.variables);
  } catch (const Error& e) {
    fail("--template-kwargs is not JSON: {}", e.what());
  }
  require_variables(variables, "--template-kwargs");
  return variables;
}

static std::unique_ptr<ChatWriter> writer_of(ChatTemplate chat, const Tokenizer& tokenizer,
                                             ChatTargets targets, OrderedJson variables) {
  const auto name = chat.name;
  if (const auto missing = missing_tokens(chat, tokenizer); !missing.empty())
    log_warning(
        "{} contains {}, which the tokenizer does not have as tokens and encodes as plain text. If "
        "the model was trained with another template, choose it with --template",
        name, fmt::join(missing, ", "));
  try {
    auto writer =
        std::make_unique<ChatWriter>(std::move(chat), tokenizer, std::move(targets), variables);
    for (const auto& [key, value] : variables.items())
      if (!writer->reads(key))
        log_warning("{} does not read the variable \"{}\" of --template-kwargs", name, key);
    return writer;
  } catch (const Error& e) {
    fail("{}: {}", name, e.what());
  }
}

// Returns the template in the tokenizer files.
static ChatTemplate own_template(const Tokenizer& tokenizer) {
  auto own = own_chat_template(tokenizer);
  require(own.has_value(),
          "the tokenizer has no chat template: choose one with --template ({}, or a Jinja file)",
          fmt::join(chat_template_names(), ", "));
  return std::move(*own);
}

std::unique_ptr<ChatWriter> chat_writer(const ChatOptions& o, const Tokenizer& tokenizer,
                                        ChatTargets targets) {
  auto chat =
      o.chat_template.empty() ? own_template(tokenizer) : chat_template_given(o.chat_template);
  return writer_of(std::move(chat), tokenizer, std::move(targets), variables_of(o));
}

std::unique_ptr<ChatWriter> chat_writer(const ChatOptions& o, const Tokenizer& tokenizer,
                                        const CheckpointMeta& meta, const std::string& model) {
  if (meta.chat_template.empty()) return chat_writer(o, tokenizer);
  const auto name = "the chat template of " + model;
  const auto trained = stored_chat(meta.chat_template, name);
  require(trained || !o.chat_template.empty(), "{} cannot be used. {}", name, advice_for_toml);
  auto chat = o.chat_template.empty() ? ChatTemplate{name, trained->jinja}
                                      : chat_template_given(o.chat_template);
  if (trained && chat.jinja != trained->jinja)
    log_warning(
        "--template {}: {} was trained with another chat template, which it contains. To use that "
        "template, leave out --template",
        o.chat_template, model);
  auto variables = trained ? trained->variables : OrderedJson::object();
  variables.update(variables_of(o));
  return writer_of(std::move(chat), tokenizer, {}, std::move(variables));
}

}  // namespace trireme
