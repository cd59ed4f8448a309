#pragma once
// Whose tokens a model is trained on, and whether they are its own.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "lib/data/chat_template.hpp"
#include "lib/data/dataset.hpp"
#include "lib/data/tokenizer.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

TokenizerSpec tokenizer_of(const CheckpointMeta&);

// Tokens have to mean to a model what they meant when it was trained: Error where its tokenizer and
// the token files' are not compatible (lib/data/same_tokenizer.hpp). `model` is its name.
void require_tokens_of(const CheckpointMeta&, const std::string& model, const TokenizerSpec& files);

// Of the files that are trained on. Error where those held out are of another one.
TokenizerSpec tokenizer_of_files(const Dataset& training, const std::optional<Dataset>& held_out);

// What the run's checkpoints carry: the token files' tokenizer, with what that of the model knows
// more, with which the run begins or goes on: of `from`, or of model.init_from where that is null.
TokenizerSpec tokenizer_of_run(const Deck&, TokenizerSpec of_files, const CheckpointReader* from);

// --template, of which chat_template_for makes the template.
CLI::Option* add_template_option(CLI::App& command, std::string& given);
// The chat template of this name or file. Error where there is none.
ChatTemplate chat_template_given(const std::string&);
// The same, or the tokenizer's own where nothing is given.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&);
// Of a model of this name: what is given goes before what it was trained with, that before the
// tokenizer's own.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&, const CheckpointMeta&,
                               const std::string& model);

}  // namespace trireme
