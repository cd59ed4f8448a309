#pragma once
// The tokenizers and chat templates of a run's data and model, and whether they match.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "lib/data/chat_template.hpp"
#include "lib/data/dataset.hpp"
#include "lib/data/tokenizer.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Returns the tokenizer of a checkpoint.
TokenizerSpec tokenizer_of(const CheckpointMeta&);

// Throws Error if the tokenizers of the model and of the token files are not compatible
// (lib/data/same_tokenizer.hpp), because ids would then mean other texts than in the model's
// training. `model` names the model in messages.
void require_tokens_of(const CheckpointMeta&, const std::string& model, const TokenizerSpec& files);

// Returns the tokenizer of the training data. Throws Error if the validation data have an
// incompatible one.
TokenizerSpec tokenizer_of_files(const Dataset& training, const std::optional<Dataset>& held_out);

// Returns the tokenizer for the run's checkpoints: that of the token files, merged with the
// tokenizer of the model with which the run begins or restarts. This model is `from`, or
// model.init_from if `from` is null.
TokenizerSpec tokenizer_of_run(const Deck&, TokenizerSpec of_files, const CheckpointReader* from);

// Adds the option --template. chat_template_for converts its value to a chat template.
CLI::Option* add_template_option(CLI::App& command, std::string& given);
// Returns the chat template with this name or in this file. Throws Error if there is none.
ChatTemplate chat_template_given(const std::string&);
// Returns the given chat template, or the tokenizer's own if `given` is empty.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&);
// Returns the chat template of a model. The `given` template has priority, then the one with which
// the model was trained, then the tokenizer's own. `model` names the model in messages.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&, const CheckpointMeta&,
                               const std::string& model);

}  // namespace trireme
