#pragma once
// Imports token files of other programs:
// - raw ids without a header (nanoGPT)
// - one-dimensional numpy arrays
// - llm.c's .bin files: a header of 256 i32 (magic, version, count), then u16 ids for magic
//   20240520 or u32 ids for magic 20240801
// - Megatron's .bin files with their .idx files
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/corpus/token_writer.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Returns the bytes per token that the output needs if the vocabulary size is not known.
int import_width(InputFormat);

// Returns the paths of the input files. For Megatron's file pairs, these are the .bin files. Throws
// Error under the conditions of expand_inputs(), and if standard input is named.
std::vector<std::string> input_token_files(const TokenizeOptions&);

// Appends the ids of `files` to the writer. Raw, numpy and llm.c ids are copied unchanged. A
// separator is appended to each Megatron document that does not end with one. Throws Error, naming
// file and position, if an id is negative or not below `vocab`, or if a file does not have the
// stated format.
TokenizeSummary import_tokens(const TokenizeOptions&, std::span<const std::string> files,
                              std::optional<std::int64_t> vocab, TokenWriter&);

}  // namespace trireme
