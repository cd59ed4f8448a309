#pragma once
// Many prompts in a file, and what became of them.
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

struct Prompt {
  std::string text;
  Conversation messages{};               // to be answered, instead of the text
  std::optional<std::int64_t> tokens{};  // how many to add; none: as all
  std::optional<std::uint64_t> seed{};
};

// A .jsonl file: an object a line with "prompt" and, if it likes, "tokens" and "seed". Any other: a
// prompt a line, empty lines left out. Of conversations an object has its messages
// (lib/data/conversation.hpp) instead, and a line is what a user says. `text` is the file's. Error
// naming file, line and field.
enum class PromptsAre : std::uint8_t { texts, conversations };
std::vector<Prompt> parse_prompts(const std::filesystem::path&, const std::string& text,
                                  PromptsAre);
// What one user says, to be answered.
Prompt prompt_of_user(std::string text);

// What a model is to continue. `chat`, where prompts are conversations: how they are written; null
// where they are texts. Error (without a place) where it cannot write this one.
std::vector<std::int32_t> ids_of(const Prompt&, const Tokenizer&, const ChatTemplate* chat);

// A line of JSON for each prompt in their order, written as soon as those before it are there.
class ContinuationWriter {
 public:
  // To stdout when `path` is empty.
  ContinuationWriter(const std::string& path, const FileKind&, ExistingFile);
  // A conversation gets the text as its answer.
  void add(std::size_t index, const Prompt&, const std::string& text, std::int64_t tokens,
           std::string_view ended);
  // After the last: the file appears.
  void finish();

 private:
  std::optional<OutputFile> file_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::string> waiting_;
};

}  // namespace trireme
