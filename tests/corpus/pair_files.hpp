#pragma once
// Token files of pairs of documents.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/corpus/tokenize.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::test {

// Trims contents.
inline constexpr const char* pair_turns =
    "{% for m in messages %}{{ raise_exception('no tools') if m.role == 'tool' }}{{ m.role[0] "
    "}}:{{ m.content.strip() }};{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";

class PairFiles : public testing::Test {
 protected:
  TokenizeOptions options(const std::string& lines) const {
    TokenizeOptions o;
    o.inputs = {scratch_.write("in.jsonl", lines)};
    o.output = output_;
    o.existing = ExistingFile::replaced;
    o.format = InputFormat::jsonl;
    o.tokenizer = bytes_.get();
    o.separator = 0;
    o.documents = Documents::pairs;
    return o;
  }
  // What is learnt in capitals, the separator as '|' or, learnt, '!'.
  std::string text() const {
    const auto ids = all_ids(output_);
    const TokenFile file(output_);
    std::string t;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool learnt = is_target(file, static_cast<std::int64_t>(i));
      const char c = static_cast<char>(ids[i]);
      t += c == 0 ? (learnt ? '!' : '|') : learnt ? static_cast<char>(std::toupper(c)) : c;
    }
    return t;
  }
  std::string refusal(const std::string& lines) const {
    return message_of<Error>([&] { tokenize(options(lines)); });
  }

  const ScratchFolder scratch_;
  const std::string output_ = scratch_ / "out.tokens";
  const std::unique_ptr<Tokenizer> bytes_ = bytes_tokenizer();
};

}  // namespace trireme::test
