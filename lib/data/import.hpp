#pragma once
// Token files of other programs: ids and nothing else (nanoGPT), arrays of numpy, llm.c's .bin
// (header of 256 i32: magic 20240520 with u16 ids or 20240801 with u32, version, count), and
// Megatron's .bin with its .idx.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/data/token_writer.hpp"
#include "lib/data/tokenize.hpp"

namespace trireme {

// Bytes a token when the vocabulary is not known.
int import_width(InputFormat);

// The inputs' files; of Megatron's pairs the .bin. Throws Error as expand_inputs does.
std::vector<std::string> input_token_files(const TokenizeOptions&);

// Appends the ids of these files. Throws Error naming file and position for an id that is negative
// or not below `vocab`, and for a file that is not what the format says. Raw and llm.c ids are
// taken as they are; each Megatron document ends with the separator, which is appended where the
// document does not have it yet.
TokenizeSummary import_tokens(const TokenizeOptions&, std::span<const std::string> files,
                              std::optional<std::int64_t> vocab, TokenWriter&);

}  // namespace trireme
