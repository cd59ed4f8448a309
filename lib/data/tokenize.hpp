#pragma once
// Makes a token file out of text, JSON lines, or the token files of other programs. Memory stays
// under 1 GB for inputs of any size, and the output does not depend on the number of threads.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/chat_template.hpp"
#include "lib/data/token_writer.hpp"
#include "lib/data/tokenizer.hpp"

namespace trireme {

enum class InputFormat : std::uint8_t {
  by_name,  // *.jsonl and *.ndjson are JSON lines, all else text
  text,     // each file is one document
  jsonl,    // each line is an object and one document
  raw_u16,  // ids and nothing else
  raw_u32,
  llmc,      // llm.c's .bin
  megatron,  // Megatron's .bin and .idx
  npy,       // a numpy array of one dimension
  nanogpt,   // nanoGPT's .bin: raw_u16
};

struct TokenizeOptions {
  std::vector<std::string> inputs;  // as expand_inputs takes them
  std::filesystem::path output;
  ExistingFile existing = ExistingFile::stays;  // what becomes of one of the output's name
  InputFormat format = InputFormat::by_name;
  // JSON lines: the field that holds the text; or, when prompt and completion are named, the
  // fields of both: then only the completion and the separator are targets.
  std::string field = "text", prompt, completion;
  // JSON lines: each is a conversation, written as this says; only what its assistant says is a
  // target. Not owned; with_tokens_of(tokenizer).
  const ChatTemplate* chat = nullptr;
  // JSON lines: each is a pair of answers to one prompt, chosen and rejected, which become two
  // documents: {"prompt": .., "chosen": .., "rejected": ..}, texts, or with `chat` lists of
  // messages. Only what the two do not share is a target.
  bool preference = false;
  std::string chat_file{};                // what the output keeps of it: chat_template_text
  const Tokenizer* tokenizer = nullptr;   // not owned; required for text, stored beside ids
  std::optional<std::int32_t> separator;  // written after each document; none: nothing is
  // Ids are below it; none: the tokenizer's, without one the largest id + 1.
  std::optional<std::int64_t> vocab;
  int threads = 0;  // 0: all that the process may use
};

// Pairs of which both answers are the same tokens: they teach nothing and are left out.
struct SamePairs {
  std::int64_t count = 0;
  std::string first{};  // file:line
};

struct TokenizeSummary {
  std::int64_t files = 0, documents = 0, tokens = 0, bytes = 0;  // bytes of input
  std::int64_t vocab = 0;
  std::optional<std::int64_t> learnt = {};  // tokens that count in the loss, where not all do
  SamePairs same = {};
  double seconds = 0;
};

// Throws Error naming file and place, and where nothing is there to be learnt; the output then
// stays as it was.
TokenizeSummary tokenize(const TokenizeOptions&);

}  // namespace trireme
