#include "lib/tokenizer/ids_tokenizer.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

namespace {

class IdsTokenizer final : public Tokenizer {
 public:
  IdsTokenizer(std::int32_t vocab, std::string_view where) : vocab_(vocab), where_(where) {}

  void encode(std::string_view text, TextPlace, std::vector<std::int32_t>& ids) const override {
    constexpr std::string_view between = " ,\t\r\n";
    const auto before = ids.size();
    for (auto at = text.find_first_not_of(between); at != std::string_view::npos;) {
      const auto end = std::min(text.find_first_of(between, at), text.size());
      ids.push_back(id_in(text.substr(at, end - at)));
      at = text.find_first_not_of(between, end);
    }
    require(ids.size() > before,
            "{} has no tokenizer: give the prompt as ids, such as --prompt '1 2 3'", where_);
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return fmt::format("{}", fmt::join(ids, " "));
  }
  std::int32_t vocab() const override { return vocab_; }
  std::optional<std::int32_t> separator() const override { return std::nullopt; }
  const TokenizerSpec& spec() const override { return spec_; }

 private:
  std::int32_t id_in(std::string_view word) const {
    const auto id = number_in<std::int32_t>(word);
    require(
        id && *id >= 0 && *id < vocab_,
        "{} has no tokenizer, and \"{}\" in the prompt is not an id below {}: give ids, such as "
        "--prompt '1 2 3'. To give text, import the model from a folder that contains its "
        "tokenizer, or train on files that `trireme tokenize` wrote with a tokenizer",
        where_, word, vocab_);
    return *id;
  }

  std::int32_t vocab_;
  std::string where_;
  TokenizerSpec spec_;
};

}  // namespace

std::unique_ptr<Tokenizer> ids_tokenizer(std::int32_t vocab, std::string_view where) {
  return std::make_unique<IdsTokenizer>(vocab, where);
}

}  // namespace trireme
