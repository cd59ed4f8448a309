#pragma once
// Creates a token file from text, JSON lines, or other programs' token files. Memory use stays
// below 1 GB for inputs of any size. The output does not depend on the number of threads.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/chat/chat_writer.hpp"
#include "lib/corpus/token_writer.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// The format of the inputs.
enum class InputFormat : std::uint8_t {
  // Chooses the format by file name: *.jsonl and *.ndjson are JSON lines, and all other files are
  // text.
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
  // Handling of an existing file at `output`.
  ExistingFile existing = ExistingFile::stays;
  InputFormat format = InputFormat::by_name;
  // For JSON lines: `field` is the name of the field with the text. If `prompt` and `completion`
  // are set, they are the names of the two text fields, and only the completion and the separator
  // are targets.
  std::string field = "text", prompt, completion;
  // For JSON lines of single documents: name of the field with the document's weight in the loss.
  // If empty, the file has no weights. A document without the field has the weight 1. The targets
  // of a document with the weight 0 do not count.
  std::string weight;
  // For JSON lines: writer of conversations. If set, each line is a conversation. The pointer is
  // not owned.
  const ChatWriter* chat = nullptr;
  // For JSON lines: with `pairs`, each line is a preference pair {"prompt": .., "chosen": ..,
  // "rejected": ..}. With `labeled`, each line is a labeled answer {"prompt": .., "completion": ..,
  // "label": ..}. Each of them becomes two documents. The values are strings, or lists of messages
  // if `chat` is set. Only the answers are targets, and not the messages that both answers of a
  // pair share.
  Documents documents = Documents::single;
  // Tokenizer, not owned. It is required for text. For imported ids it is only stored in the
  // output.
  const Tokenizer* tokenizer = nullptr;
  // Id to write after each document. If absent, no id is written.
  std::optional<std::int32_t> separator;
  // Vocabulary size. If absent, the tokenizer's vocabulary size is used or, without a tokenizer,
  // the largest id plus 1.
  std::optional<std::int64_t> vocab;
  // Number of threads. 0 uses all CPUs that are available to the process.
  int threads = 0;
  // Size of the parts that several ranks share, in bytes of input (lib/corpus/parts.hpp). 0 chooses
  // it by the size of all inputs.
  std::int64_t part_bytes = 0;
  // Optional. Returns the reason why tokenization must stop, such as "SIGTERM", or an empty text to
  // continue.
  std::function<std::string()> stopped_by;
};

// Lines of one kind: their number, and the first one.
struct FoundLines {
  std::int64_t count = 0;
  std::string first{};  // "file:line", and the reason if it is not obvious
};

// Thrown if TokenizeOptions::stopped_by asks to stop. Its message is the reason.
struct Stopped : Error {
  using Error::Error;
};
// Returns the reason to stop, or an empty text.
std::string stop_reason(const TokenizeOptions&);
// Throws Stopped if there is a reason to stop.
void stop_if_asked(const TokenizeOptions&);

// Statistics of a tokenization.
struct TokenizeSummary {
  std::int64_t files = 0, documents = 0, tokens = 0, bytes = 0;  // bytes of input
  std::int64_t vocab = 0;
  // Number of tokens that count in the loss. Absent if all tokens count.
  std::optional<std::int64_t> learnt = {};
  // Preference pairs whose two answers have the same tokens. They are omitted because nothing can
  // be learned from them.
  FoundLines same = {};
  // Labeled answers whose mismatched answer has the same prompt or is the same answer.
  FoundLines alike = {};
  // Empty answers in conversations. They are not trained on.
  FoundLines empty = {};
  // Contents of messages that the chat template does not write.
  FoundLines left_out = {};
  // Thoughts of messages that the chat template does not write.
  FoundLines left_out_thoughts = {};
  // Names of special tokens in messages and tools, which become plain text.
  FoundLines plain_names = {};
  // Documents without the field that TokenizeOptions::weight names.
  FoundLines unweighted = {};
  // Conversations without any token that is trained on.
  FoundLines untrained = {};
  // Lines with keys that are not read, by key (lib/chat/unread_keys.hpp). Empty for texts in a
  // field that the options name.
  std::map<std::string, FoundLines> unread = {};
  double seconds = 0;
};

// Writes the token file. Throws Error, naming file and line, if an input is invalid. Also throws
// Error if there are no tokens or no targets. Throws Stopped if TokenizeOptions::stopped_by asks to
// stop. After an error, an existing output file is unchanged.
TokenizeSummary tokenize(const TokenizeOptions&);

}  // namespace trireme
