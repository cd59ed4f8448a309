#pragma once
// Finds the tokenizers and chat templates of a run's data and model, and checks that they match.
#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

#include "lib/chat/chat_template.hpp"
#include "lib/data/dataset.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// Returns the tokenizer of a checkpoint.
TokenizerSpec tokenizer_of(const CheckpointMeta&);

// Throws Error if the tokenizers of a model and of token files are not compatible
// (lib/tokenizer/same_tokenizer.hpp). With incompatible tokenizers, ids would represent other texts
// than in the training of the model. `model` is the name of the model in messages.
void require_tokens_of(const CheckpointMeta&, const std::string& model, const TokenizerSpec& files);

// Returns the tokenizer of the training data. Throws Error if the tokenizer of the validation data
// (`held_out`) is not compatible with it.
TokenizerSpec tokenizer_of_files(const Dataset& training, std::span<const ValidationData> held_out);

// Returns the tokenizer that the run stores in its checkpoints. This is the tokenizer of the token
// files, merged with the tokenizer of the model from which the run starts or restarts. If the run
// restarts, `from` is the checkpoint with this model. Otherwise, `from` is null, and
// model.init_from names the model.
TokenizerSpec tokenizer_of_run(const Deck&, TokenizerSpec of_files, const CheckpointReader* from);

// Adds the option --template to a command. chat_template_for() converts the value of the option to
// a chat template.
CLI::Option* add_template_option(CLI::App& command, std::string& given);
// Returns the known chat template with the given name, or the chat template in the given file.
// Throws Error if there is no such template.
ChatTemplate chat_template_given(const std::string&);
// Returns the chat template `given` or, if `given` is empty, the template in the tokenizer files.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&);
// Returns the chat template for a model. This is the first of the following that exists: the
// template `given`, the template with which the model was trained, and the template in the
// tokenizer files. `model` is the name of the model in messages.
ChatTemplate chat_template_for(const std::string& given, const Tokenizer&, const CheckpointMeta&,
                               const std::string& model);

}  // namespace trireme
