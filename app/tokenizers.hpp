#pragma once
// Finds the tokenizers and chat templates of a run's data and model, and checks that they match.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/chat/chat_writer.hpp"
#include "lib/data/deck_data.hpp"
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

// The values of the options --template and --template-kwargs.
struct ChatOptions {
  std::string chat_template, variables;
};
// Adds these options to a command. The parser accepts them only together with the option `chat`.
void add_chat_options(CLI::App& command, ChatOptions&, CLI::Option* chat);
// Returns the known chat template with the given name, or the chat template in the given file.
// Throws Error if there is no such template.
ChatTemplate chat_template_given(const std::string&);
// Returns a writer with the given chat template or, if none is given, with the one in the tokenizer
// files.
std::unique_ptr<ChatWriter> chat_writer(const ChatOptions&, const Tokenizer&, ChatTargets = {});
// Returns a writer for a model. Its template is the first of the following that exists: the given
// one, the one with which the model was trained, and the one in the tokenizer files. `model` is the
// name of the model in messages.
std::unique_ptr<ChatWriter> chat_writer(const ChatOptions&, const Tokenizer&, const CheckpointMeta&,
                                        const std::string& model);

}  // namespace trireme
