#pragma once
// Small tokenizers of Hugging Face's kind.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/json.hpp"
#include "lib/tokenizer/hf_files.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

// A token for each letter, in order, and special tokens behind them; without merges.
inline TokenizerSpec tokenizer_of_letters(std::string_view letters,
                                          const std::vector<std::string>& special = {},
                                          HfFiles beside = {}) {
  auto vocabulary = Json::object();
  for (const char c : letters) vocabulary[std::string(1, c)] = vocabulary.size();
  auto all = byte_level_bpe(vocabulary, Json::array());
  for (const auto& text : special)
    all["added_tokens"].push_back({{"id", letters.size() + all["added_tokens"].size()},
                                   {"content", text},
                                   {"special", true},
                                   {"normalized", false}});
  beside["tokenizer.json"] = all.dump();
  return {TokenizerKind::huggingface, pack(beside, "a test")};
}

}  // namespace trireme
