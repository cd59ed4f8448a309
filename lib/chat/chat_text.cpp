#include "lib/chat/chat_text.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

namespace trireme {

namespace {

// Counts the tokens that end at a position of the text or before it.
class Places {
 public:
  Places(const Tokenizer& tokenizer, const ChatText& chat) : tokenizer_(tokenizer), chat_(chat) {
    index_ = tokenizer.encode_marked(chat.text, chat.special, ids_);
  }
  const std::vector<std::int32_t>& ids() const { return ids_; }

  struct Count {
    std::size_t whole;  // tokens that end at the position or before
    bool divides;       // the position is inside the next token
  };
  // Positions are the bounds of targets. RenderedChat never puts a bound inside a special token.
  Count before(std::size_t place) {
    const auto above = std::ranges::upper_bound(chat_.special, place, {}, &TextSpan::end);
    const auto n = static_cast<std::size_t>(above - chat_.special.begin());
    const Run run{n == 0 ? 0 : chat_.special[n - 1].end,
                  n == chat_.special.size() ? chat_.text.size() : chat_.special[n].begin,
                  n == 0 ? 0 : index_[n - 1] + 1, n == index_.size() ? ids_.size() : index_[n]};
    if (place == run.text_begin) return {run.ids_begin, false};
    if (run_ != n) {
      ends_ = ends_of_tokens(run);
      run_ = n;
    }
    if (ends_) {
      const auto whole = std::ranges::upper_bound(*ends_, place) - ends_->begin();
      const auto end = whole == 0 ? run.text_begin : (*ends_)[static_cast<std::size_t>(whole) - 1];
      return {run.ids_begin + static_cast<std::size_t>(whole), end < place};
    }
    return encoded_up_to(place, n);
  }

 private:
  // Text and ids between two special tokens.
  struct Run {
    std::size_t text_begin, text_end, ids_begin, ids_end;
  };

  // Returns where each token's text ends, or nothing if a normalizer changed the text.
  std::optional<std::vector<std::size_t>> ends_of_tokens(const Run& run) const {
    std::vector<std::size_t> ends;
    std::size_t at = run.text_begin;
    for (auto i = run.ids_begin; i < run.ids_end; ++i) {
      const auto bytes = tokenizer_.text_bytes(ids_[i]);
      if (!bytes) return std::nullopt;
      ends.push_back(at += *bytes);
    }
    const auto more = at - run.text_end;  // 1: a space was added before the text
    if (at < run.text_end || more > 1) return std::nullopt;
    for (auto& end : ends) end -= more;
    return ends;
  }

  // Encodes the text from special token n - 1 up to the position once more. Where the ids differ
  // from those of the whole text, a token crosses the position. The count is right if only that
  // token differs.
  Count encoded_up_to(std::size_t place, std::size_t n) const {
    const auto from = n == 0 ? 0 : chat_.special[n - 1].begin;
    const auto first = n == 0 ? 0 : index_[n - 1];
    std::vector<TextSpan> mark;
    if (n > 0) mark.push_back({0, chat_.special[n - 1].end - from});
    std::vector<std::int32_t> part;
    tokenizer_.encode_marked(std::string_view(chat_.text).substr(from, place - from), mark, part);
    const auto rest = std::span(ids_).subspan(first);
    const auto same =
        static_cast<std::size_t>(std::ranges::mismatch(part, rest).in1 - part.begin());
    return {first + same, same < part.size()};
  }

  const Tokenizer& tokenizer_;
  const ChatText& chat_;
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> index_;  // indices of the special tokens in ids_
  // Ends of the tokens of run_, the run asked for last. Many positions may be in one run.
  std::optional<std::size_t> run_;
  std::optional<std::vector<std::size_t>> ends_;
};

}  // namespace

void encode_chat(const Tokenizer& tokenizer, const ChatText& chat, std::vector<std::int32_t>& ids,
                 std::vector<std::uint8_t>& targets) {
  Places places(tokenizer, chat);
  const auto& all = places.ids();
  std::vector<std::uint8_t> learnt(all.size(), 0);
  for (const auto& target : chat.targets) {
    const auto end = places.before(target.end);
    const auto begin = places.before(target.begin).whole;
    for (auto i = begin; i < std::min(all.size(), end.whole + (end.divides ? 1 : 0)); ++i)
      learnt[i] = 1;
  }
  ids.insert(ids.end(), all.begin(), all.end());
  targets.insert(targets.end(), learnt.begin(), learnt.end());
}

}  // namespace trireme
