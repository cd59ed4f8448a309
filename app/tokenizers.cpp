#include "app/tokenizers.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/chat/chat_jinja.hpp"
#include "lib/chat/chat_template_file.hpp"
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
}

// Warns if token files have different chat templates, because checkpoints contain only one.
static void warn_of_chat_templates(const Dataset& training,
                                   const std::optional<Dataset>& held_out) {
  auto ranges = training.ranges();
  if (held_out) ranges.insert(ranges.end(), held_out->ranges().begin(), held_out->ranges().end());
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

TokenizerSpec tokenizer_of_files(const Dataset& training, const std::optional<Dataset>& held_out) {
  const auto tokenizer = training.tokenizer();
  warn_of_chat_templates(training, held_out);
  if (!held_out) return tokenizer;
  const auto other = held_out->tokenizer();
  require(compatible(tokenizer, "data.path", other, "data.validation"),
          "the files of data.path were tokenized with {}, but those of data.validation with {}: "
          "use one tokenizer for all files",
          tokenizer.identity(), other.identity());
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

CLI::Option* add_template_option(CLI::App& command, std::string& given) {
  return command
      .add_option("--template", given,
                  fmt::format("Chat template that formats conversations: {}, or a file "
                              "(default: the one of the checkpoint or tokenizer)",
                              fmt::join(chat_template_names(), ", ")))
      ->option_text("NAME|FILE");
}

ChatTemplate chat_template_given(const std::string& given) {
  const bool file = given.ends_with(".toml") || std::filesystem::is_regular_file(given);
  return file ? read_chat_template(given) : chat_template_named(given);
}

ChatTemplate chat_template_for(const std::string& given, const Tokenizer& tokenizer) {
  return given.empty() ? chat_template_of(tokenizer) : chat_template_given(given);
}

ChatTemplate chat_template_for(const std::string& given, const Tokenizer& tokenizer,
                               const CheckpointMeta& meta, const std::string& model) {
  const bool kept = given.empty() && !meta.chat_template.empty();
  if (!kept && !meta.chat_template.empty() &&
      chat_template_text(chat_template_given(given)) != meta.chat_template)
    log_warning(
        "--template {}: {} was trained with another chat template, which it contains. To use that "
        "template, leave out --template",
        given, model);
  return kept ? parse_chat_template(meta.chat_template, "the chat template in " + model)
              : chat_template_for(given, tokenizer);
}

}  // namespace trireme
