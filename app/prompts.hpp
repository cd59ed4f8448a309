#pragma once
// Reads prompts from a file and writes what a model generated for them.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/output.hpp"
#include "lib/data/chat_template.hpp"
#include "lib/data/conversation.hpp"
#include "lib/data/tokenizer.hpp"

namespace trireme {

// A prompt for generation.
struct Prompt {
  std::string text;
  // A conversation to be answered, instead of the text.
  Conversation messages{};
  // Maximum number of tokens to generate. If absent, that of the command line.
  std::optional<std::int64_t> tokens{};
  std::optional<std::uint64_t> seed{};
};

// Whether a file contains texts to be continued or conversations to be answered.
enum class PromptsAre : std::uint8_t { texts, conversations };
// Reads prompts from the text of a file. In a .jsonl file, each line is an object with "prompt"
// and, optionally, "tokens" and "seed". In other files, each line that is not empty is a prompt.
// For conversations, an object has messages (lib/data/conversation.hpp), and a line of another file
// is a user's message. Throws Error, naming file, line and field, if a line is invalid.
std::vector<Prompt> parse_prompts(const std::filesystem::path&, const std::string& text,
                                  PromptsAre);
// Returns a conversation with a single user message.
Prompt prompt_of_user(std::string text);

// Returns the ids that a model is to continue. `chat` is the chat template for conversations, or
// null for texts. Throws Error if the template cannot write the conversation. The caller adds the
// place to the error.
std::vector<std::int32_t> ids_of(const Prompt&, const Tokenizer&, const ChatTemplate* chat);

// Writes one line of JSON per prompt, in the order of the prompts. Each line is written as soon as
// all earlier lines are complete.
class ContinuationWriter {
 public:
  // Opens the output file, or writes to stdout if `path` is empty.
  ContinuationWriter(const std::string& path, const FileKind&, ExistingFile);
  // Adds the text generated for prompt number `index`, from 0. For a conversation, the text is
  // written as the assistant's answer.
  void add(std::size_t index, const Prompt&, const std::string& text, std::int64_t tokens,
           std::string_view ended);
  // Publishes the file after the last prompt.
  void finish();

 private:
  std::optional<OutputFile> file_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::string> waiting_;
};

}  // namespace trireme
