#include "app/tokenizers.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/data/chat_jinja.hpp"
#include "lib/data/chat_template_file.hpp"
#include "lib/data/same_tokenizer.hpp"
#include "lib/io/checkpoint_list.hpp"

namespace trireme {

TokenizerSpec tokenizer_of(const CheckpointMeta& meta) {
  return {kind_named(meta.tokenizer_kind), meta.tokenizer};
}

void require_tokens_of(const CheckpointMeta& meta, const std::string& model,
                       const TokenizerSpec& files) {
  const auto there = tokenizer_of(meta);
  require(compatible(there, model, files, "the token files"),
          "the token files were made with the tokenizer {}, {} is a model of the tokenizer {}, in "
          "which ids mean other texts: tokenize the text again with the model's (--tokenizer)",
          files.identity(), model, there.identity());
}

TokenizerSpec tokenizer_of_files(const Dataset& training, const std::optional<Dataset>& held_out) {
  const auto tokenizer = training.tokenizer();
  if (!held_out) return tokenizer;
  const auto other = held_out->tokenizer();
  require(
      compatible(tokenizer, "data.path", other, "data.validation"),
      "the files of data.path were tokenized with {}, those of data.validation with {}: use one "
      "tokenizer for all files",
      tokenizer.identity(), other.identity());
  return tokenizer;
}

TokenizerSpec tokenizer_of_run(const Deck& deck, TokenizerSpec of_files,
                               const CheckpointReader* from) {
  std::optional<CheckpointReader> initial;
  if (!from && !deck.model.init_from.empty())
    from = &initial.emplace(find_checkpoint(deck.model.init_from));
  if (!from) return of_files;
  require_tokens_of(from->meta(), from->directory().string(), of_files);
  return merged(of_files, tokenizer_of(from->meta()));
}

CLI::Option* add_template_option(CLI::App& command, std::string& given) {
  return command
      .add_option("--template", given,
                  fmt::format("how a conversation is written: {}, or a file (default: as the "
                              "tokenizer says)",
                              fmt::join(chat_template_names(), ", ")))
      ->option_text("NAME|FILE");
}

ChatTemplate chat_template_for(const std::string& given, const Tokenizer& tokenizer) {
  const bool file = given.ends_with(".toml") || std::filesystem::is_regular_file(given);
  return with_tokens_of(given.empty() ? chat_template_of(tokenizer)
                        : file        ? read_chat_template(given)
                                      : chat_template_named(given),
                        tokenizer);
}

}  // namespace trireme
