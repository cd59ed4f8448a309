#pragma once
// Reads prompts from a file and writes the texts that a model generated for them.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/output.hpp"
#include "lib/chat/chat_writer.hpp"
#include "lib/chat/conversation.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// A prompt for generation.
struct Prompt {
  std::string text;
  // Conversation that the model is to answer. If it has messages, `text` is ignored.
  Conversation chat{};
  // Maximum number of tokens to generate. If absent, the number from the command line applies.
  std::optional<std::int64_t> tokens{};
  std::optional<std::uint64_t> seed{};
};

// Whether a file contains texts that the model is to continue, or conversations that it is to
// answer.
enum class PromptsAre : std::uint8_t { texts, conversations };
// Reads prompts from the `text` of a file. In a .jsonl file, each line is a JSON object. The object
// contains "prompt" or, for conversations, messages (lib/chat/conversation.hpp), and optionally
// "tokens" and "seed". In other files, each line that is not empty is a prompt or, for
// conversations, a user message. Throws Error, which names the file, line and field, if a line is
// invalid.
std::vector<Prompt> parse_prompts(const std::filesystem::path&, const std::string& text,
                                  PromptsAre);
// Returns a conversation that consists of one user message.
Prompt prompt_of_user(std::string text);

// Returns the token ids of a prompt. `chat` is the writer of conversations, or null for texts.
// Throws Error if the template cannot express the conversation. The caller adds the location of the
// prompt to the error message.
std::vector<std::int32_t> ids_of(const Prompt&, const Tokenizer&, const ChatWriter* chat);

// Writes one line of JSON per prompt, in the order of the prompts. Writes a line as soon as the
// texts of this prompt and of all earlier prompts are known.
class ContinuationWriter {
 public:
  // Opens the output file. If `path` is empty, writes to stdout.
  ContinuationWriter(const std::string& path, const FileKind&, ExistingFile);
  // Adds the text generated for prompt number `index` (counted from 0). For a conversation, the
  // text is written as the assistant's answer. `tokens` is the number of generated tokens, and
  // `ended` the reason why generation ended.
  void add(std::size_t index, const Prompt&, const std::string& text, std::int64_t tokens,
           std::string_view ended);
  // Completes the output file. Must be called after the last prompt.
  void finish();

 private:
  std::optional<OutputFile> file_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::string> waiting_;
};

}  // namespace trireme
