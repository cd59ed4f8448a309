#pragma once
// The tokenizers and chat templates of a run's data and model, and checks that they match.
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
// (lib/data/same_tokenizer.hpp). Ids would then represent other texts than in the model's training.
// `model` is the name of the model in messages.
void require_tokens_of(const CheckpointMeta&, const std::string& model, const TokenizerSpec& files);

// Returns the tokenizer of the training data. Throws Error if the tokenizer of the validation data
// is not compatible.
TokenizerSpec tokenizer_of_files(const Dataset& training, const std::optional<Dataset>& held_out);

// Returns the tokenizer for the run's checkpoints: the tokenizer of the token files, merged with
// the tokenizer of the model from which the run starts or restarts. This model is `from` or, if
// `from` is null, model.init_from.
TokenizerSpec tokenizer_of_run(const Deck&, TokenizerSpec of_files, const CheckpointReader* from);

// Adds the option --template. chat_template_for() converts the option's value to a chat template.
CLI::Option* add_template_option(CLI::App& command, std::string& given);
// Returns the chat template with this name or in this file. Throws Error if there is no such
// template.
ChatTemplate chat_template_given(const std::string&);
// Returns the given chat template, or the tokenizer's own if `given` is empty.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&);
// Returns the chat template of a model: the `given` template, otherwise the template with which the
// model was trained, otherwise the tokenizer's own. `model` is the name of the model in messages.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&, const CheckpointMeta&,
                               const std::string& model);

}  // namespace trireme
