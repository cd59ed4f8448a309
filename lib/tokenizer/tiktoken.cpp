#include "lib/tokenizer/tiktoken.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "lib/base/error.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/tokenizer/byte_alphabet.hpp"
#include "lib/tokenizer/split_patterns.hpp"

namespace trireme {

namespace {

using Ranks = std::unordered_map<std::string, std::int32_t>;

struct Encoding {
  std::string_view name, pattern;
  std::int32_t tokens;  // tokens in the table
  std::vector<std::pair<std::string, std::int32_t>> special;
  std::string_view end, begin;  // tokens around a text; `begin` may be empty
};

std::vector<std::pair<std::string, std::int32_t>> llama3_special() {
  constexpr std::int32_t first = 128000;
  std::vector<std::pair<std::string, std::int32_t>> all;
  const auto add = [&](std::string name) {
    all.emplace_back(std::move(name), first + static_cast<std::int32_t>(all.size()));
  };
  for (const auto* name :
       {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>",
        "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"})
    add(name);
  for (int i = 3; all.size() < 256; ++i) add(fmt::format("<|reserved_special_token_{}|>", i));
  return all;
}

const std::vector<Encoding>& encodings() {
  static const std::vector<Encoding> all = {
      {"gpt2", gpt2_pattern, 50256, {{"<|endoftext|>", 50256}}, "<|endoftext|>", ""},
      {"cl100k",
       llama3_pattern,
       100256,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}},
       "<|endoftext|>",
       ""},
      {"llama3", llama3_pattern, 128000, llama3_special(), "<|end_of_text|>", "<|begin_of_text|>"}};
  return all;
}

// Returns the bytes, or nothing if the text is not base64.
std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<char>(bits >> (count -= 8) & 0xffU));
  }
  return bytes;
}

struct Row {
  std::string token;
  std::int32_t rank;
};

std::optional<Row> row_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto token = from_base64(line.substr(0, space));
  const auto rank = number_in<std::int32_t>(line.substr(space + 1));
  if (!token || token->empty() || !rank) return std::nullopt;
  return Row{std::move(*token), *rank};
}

// Returns every way to merge a token from two tokens, ordered by the token's rank, then by the
// ranks of the two.
nlohmann::json merges_of(const std::map<std::int32_t, std::string>& by_rank, const Ranks& ranks) {
  auto merges = nlohmann::json::array();
  for (const auto& [rank, token] : by_rank) {
    std::vector<std::tuple<std::int32_t, std::int32_t, std::size_t>> found;
    for (std::size_t i = 1; i < token.size(); ++i) {
      const auto left = ranks.find(token.substr(0, i)), right = ranks.find(token.substr(i));
      if (left != ranks.end() && right != ranks.end())
        found.emplace_back(left->second, right->second, i);
    }
    std::ranges::sort(found);
    for (const auto& [left, right, i] : found)
      merges.push_back({token_of_bytes(token.substr(0, i)), token_of_bytes(token.substr(i))});
  }
  return merges;
}

nlohmann::json special_token(const std::string& text, std::int32_t id) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

std::string tiktoken_encodings() {
  std::string all;
  for (const auto& e : encodings()) all.append(all.empty() ? "" : ", ").append(e.name);
  return all;
}

bool is_tiktoken(std::string_view beginning) {
  const auto end = beginning.find('\n');
  return end != std::string_view::npos && row_of(beginning.substr(0, end));
}

HfFiles tiktoken_files(std::string_view table, std::string_view encoding,
                       const std::string& where) {
  const auto known = std::ranges::find(encodings(), encoding, &Encoding::name);
  require(known != encodings().end(),
          "{} is a tiktoken vocabulary file, which contains neither the pattern nor the special "
          "tokens: name its encoding with --tiktoken ({}), or give a tokenizer.json",
          where, tiktoken_encodings());
  Ranks ranks;
  std::map<std::int32_t, std::string> by_rank;
  std::int64_t number = 0;
  for (const auto line : split(table, '\n')) {
    ++number;
    if (line.empty()) continue;
    auto row = row_of(line);
    require(row.has_value(), "{}:{}: this is not a token in base64 with its rank", where, number);
    require(by_rank.emplace(row->rank, row->token).second &&
                ranks.emplace(row->token, row->rank).second,
            "{}:{}: this token or its rank occurs a second time", where, number);
  }
  require(!by_rank.empty() && by_rank.begin()->first == 0 &&
              by_rank.rbegin()->first == known->tokens - 1 && std::ssize(by_rank) == known->tokens,
          "{} has {} tokens, but the encoding {} has {}: name another encoding with --tiktoken",
          where, by_rank.size(), encoding, known->tokens);
  auto vocab = nlohmann::json::object();
  for (const auto& [rank, token] : by_rank) vocab[token_of_bytes(token)] = rank;
  auto added = nlohmann::json::array();
  for (const auto& [text, id] : known->special) {
    added.push_back(special_token(text, id));
    vocab[text] = id;  // else tokenizers would number it after the table, without gaps
  }
  auto all = byte_level_bpe(vocab, merges_of(by_rank, ranks));
  all["added_tokens"] = std::move(added);
  all["model"]["ignore_merges"] = true;
  all["pre_tokenizer"] = {{"type", "Sequence"},
                          {"pretokenizers",
                           {{{"type", "Split"},
                             {"pattern", {{"Regex", known->pattern}}},
                             {"behavior", "Isolated"},
                             {"invert", false}},
                            byte_level()}}};
  nlohmann::json config = {{"eos_token", known->end},
                           {"clean_up_tokenization_spaces", false},
                           {"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (!known->begin.empty()) {
    const auto id = known->special.front().second;
    config["bos_token"] = known->begin;
    all["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", known->begin}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair",
         {{{"SpecialToken", {{"id", known->begin}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"SpecialToken", {{"id", known->begin}, {"type_id", 1}}}},
          {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens",
         {{std::string(known->begin),
           {{"id", known->begin}, {"ids", {id}}, {"tokens", {known->begin}}}}}}};
  }
  return {{"tokenizer.json", all.dump()}, {"tokenizer_config.json", config.dump(2)}};
}

}  // namespace trireme
