#pragma once
// Decisions that follow from the options of `trireme tokenize`: the input files, their formats, and
// the tokenizer to store.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/corpus/inputs.hpp"
#include "lib/corpus/text_source.hpp"
#include "lib/corpus/tokenize.hpp"

namespace trireme {

// Bytes of text that an OrderedPool may hold. The ids that are not yet written take at most 9 times
// as much.
inline constexpr std::size_t text_in_flight = std::size_t{1} << 26;

// Returns true if the inputs are ids of other programs.
bool imports_ids(const TokenizeOptions&);
// Throws Error if the options contradict each other.
void check_options(const TokenizeOptions&);
// Returns the text files. Throws Error if the output is one of them, as the output of an earlier
// run may be if its folder is an input.
std::vector<std::string> input_text_files(const TokenizeOptions&);
// Returns true if each line of the file is a document.
bool holds_json_lines(const TokenizeOptions&, const std::string& file);
// Adds a file to the source, as text or JSON lines. `first_line` is the number of its first line.
void add_file(const TokenizeOptions&, InputFile&, TextSource&, std::int64_t first_line = 1);
// Returns the tokenizer's spec. If the input is conversations, the spec also has the token that
// ends an answer, so that models stop there when they generate text.
TokenizerSpec stored_tokenizer(const TokenizeOptions&);
// Returns TokenizeOptions::threads, or the number of CPUs that are available to the process.
int threads_for(const TokenizeOptions&);
// Describes everything except the inputs that decides the tokens. The text names this version of
// the program, too.
std::string settings_text(const TokenizeOptions&);

}  // namespace trireme
