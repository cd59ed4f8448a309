#pragma once
// Makes a token file from text, JSON lines, or other programs' token files. Memory stays below 1 GB
// for inputs of any size. The output does not depend on the number of threads.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/chat_template.hpp"
#include "lib/data/token_writer.hpp"
#include "lib/data/tokenizer.hpp"

namespace trireme {

// The format of the inputs.
enum class InputFormat : std::uint8_t {
  // *.jsonl and *.ndjson are JSON lines; all other files are text.
  by_name,
  text,     // each file is one document
  jsonl,    // each line is an object and one document
  raw_u16,  // ids without a header
  raw_u32,
  llmc,      // llm.c's .bin
  megatron,  // Megatron's .bin and .idx
  npy,       // one-dimensional numpy array
  nanogpt,   // nanoGPT's .bin, the same as raw_u16
};

struct TokenizeOptions {
  std::vector<std::string> inputs;  // patterns for expand_inputs
  std::filesystem::path output;
  // What happens to an existing file at `output`.
  ExistingFile existing = ExistingFile::stays;
  InputFormat format = InputFormat::by_name;
  // For JSON lines: `field` is the field that contains the text. If `prompt` and `completion` are
  // set, they are the fields of both texts, and only the completion and the separator are targets.
  std::string field = "text", prompt, completion;
  // For JSON lines: if set, each line is a conversation that is written with this template, and
  // only the assistant's turns are targets. The pointer is not owned. The template must come from
  // with_tokens_of(tokenizer).
  const ChatTemplate* chat = nullptr;
  // For JSON lines: each line is a preference pair {"prompt": .., "chosen": .., "rejected": ..},
  // and becomes two documents. The values are texts, or lists of messages if `chat` is set. The
  // messages that both answers share are not targets.
  bool preference = false;
  // The chat template as stored in the output (chat_template_text).
  std::string chat_file{};
  // Not owned. Required for text. For imported ids it is only stored in the output.
  const Tokenizer* tokenizer = nullptr;
  // Id written after each document. If absent, nothing is written.
  std::optional<std::int32_t> separator;
  // Vocabulary size. If absent, the tokenizer's, or without a tokenizer the largest id plus 1.
  std::optional<std::int64_t> vocab;
  // 0 uses all CPUs available to the process.
  int threads = 0;
};

// Preference pairs whose answers have the same tokens. They teach nothing and are left out.
struct SamePairs {
  std::int64_t count = 0;
  std::string first{};  // "file:line" of the first such pair
};

// Statistics of a tokenization.
struct TokenizeSummary {
  std::int64_t files = 0, documents = 0, tokens = 0, bytes = 0;  // bytes of input
  std::int64_t vocab = 0;
  // Number of tokens that count in the loss. Absent if all do.
  std::optional<std::int64_t> learnt = {};
  SamePairs same = {};
  double seconds = 0;
};

// Writes the token file. Throws Error, naming file and line, if an input is invalid. Also throws
// Error if there are no tokens or no targets. After an error, an existing output is unchanged.
TokenizeSummary tokenize(const TokenizeOptions&);

}  // namespace trireme
