#include "lib/corpus/tokenize.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/seconds.hpp"
#include "lib/chat/chat_text.hpp"
#include "lib/corpus/import.hpp"
#include "lib/corpus/inputs.hpp"
#include "lib/corpus/item_encoder.hpp"
#include "lib/corpus/labeled_answers.hpp"
#include "lib/corpus/ordered_pool.hpp"
#include "lib/corpus/text_source.hpp"
#include "lib/corpus/token_writer.hpp"
#include "lib/tokenizer/same_tokenizer.hpp"

namespace trireme {

namespace {

// Bytes of text that are in the pool. The ids that are not yet written take at most 9 times as
// much.
constexpr std::size_t text_in_flight = std::size_t{1} << 26;

// Returns the input files. Throws Error if the output is one of them, as the output of an earlier
// run may be if its folder is an input.
std::vector<std::string> input_files(const TokenizeOptions& options) {
  auto files = expand_inputs(options.inputs);
  for (const auto& file : files) {
    std::error_code absent;
    require(!std::filesystem::equivalent(file, options.output, absent),
            "{} is both input and output: write the tokens to another file", file);
  }
  return files;
}

bool holds_json_lines(const TokenizeOptions& options, const std::string& file) {
  if (has_mask(options)) return true;
  if (options.format != InputFormat::by_name) return options.format == InputFormat::jsonl;
  const auto name = unpacked_name(file);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".parquet");
}

int usable_threads() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  return std::max(1, n);
}

void check(const TokenizeOptions& o, bool ids) {
  require(o.prompt.empty() == o.completion.empty(),
          "--prompt and --completion need each other: give both or neither");
  require(ids || o.tokenizer != nullptr,
          "text needs a tokenizer: bytes, a SentencePiece model or a tokenizer.json");
  if (o.vocab) {
    require(*o.vocab > 0 && *o.vocab <= std::int64_t{1} << 30,
            "a vocabulary of {} is not possible: give --vocab between 1 and 2^30", *o.vocab);
  }
  if (o.vocab && o.tokenizer != nullptr) {
    require(
        *o.vocab >= o.tokenizer->vocab(),
        "the vocabulary of {} is smaller than the tokenizer's {}: raise --vocab, or leave it out",
        *o.vocab, o.tokenizer->vocab());
  }
  const auto vocab = o.vocab       ? *o.vocab
                     : o.tokenizer ? o.tokenizer->vocab()
                                   : std::int64_t{1} << 30;
  require(o.documents == Documents::single || o.separator,
          "{} need a separator after each document: give --separator an id or a token's text, not "
          "none",
          names_of(o.documents).many);
  require(!o.separator || (*o.separator >= 0 && *o.separator < vocab),
          "separator {} is not in the vocabulary of {}: choose an id below it, or none",
          o.separator.value_or(-1), vocab);
}

// Returns the tokenizer's spec. If the input is conversations, the spec also has the token that
// ends an answer, so that models stop there when they generate text.
TokenizerSpec spec_of(const TokenizeOptions& o) {
  if (o.tokenizer == nullptr) return {};
  auto spec = o.tokenizer->spec();
  if (o.chat) spec.chat = chat_text_of(o.chat->stored());
  const auto end = o.chat ? o.chat->end_of_answer() : std::string();
  if (end.empty()) return spec;
  const auto id = o.tokenizer->id_of(end);
  const auto known = o.tokenizer->ends();
  if (!id || std::ranges::find(known, *id) != known.end()) return spec;
  if (spec.kind == TokenizerKind::huggingface) return with_end(spec, *id);
  log_warning(
      "the model learns to end answers with {}, but a tokenizer of the kind {} cannot record this, "
      "so programs that generate text will not stop there. Give the tokenizer as a tokenizer.json",
      end, name_of(spec.kind));
  return spec;
}

TokenizeSummary tokenize_text(const TokenizeOptions& options, std::span<const std::string> files,
                              std::int64_t vocab, TokenWriter& writer) {
  TokenizeSummary sum;
  std::set<std::string> roles;
  if (has_mask(options)) sum.learnt = 0;
  OrderedPool<TextItem, EncodedItem> pool(
      options.threads > 0 ? options.threads : usable_threads(), text_in_flight,
      item_encoder(options, token_bytes_for(vocab)), [&](EncodedItem encoded) {
        if (sum.learnt) *sum.learnt += std::ranges::count(encoded.packed.targets, std::uint8_t{1});
        writer.append(encoded.packed);
        sum.documents += encoded.documents;
        const auto count = [](FoundLines& all, FoundLines& here) {
          if (all.count == 0) all.first = std::move(here.first);
          all.count += here.count;
        };
        count(sum.same, encoded.same);
        count(sum.alike, encoded.alike);
        count(sum.empty, encoded.empty);
        count(sum.left_out, encoded.left_out);
        count(sum.untrained, encoded.untrained);
        count(sum.left_out_thoughts, encoded.left_out_thoughts);
        count(sum.plain_names, encoded.plain_names);
        roles.merge(encoded.roles);
        for (auto& [key, found] : encoded.unread) count(sum.unread[key], found);
      });
  const auto encode = [&](TextItem item) {
    const std::size_t n = item.text.size();
    pool.add(std::move(item), n);
  };
  FollowingLines following(encode);
  const bool labeled = options.documents == Documents::labeled;
  TextSource source(
      [&](TextItem item) { labeled ? following.add(std::move(item)) : encode(std::move(item)); },
      longest_line,
      [&](std::string_view text, std::size_t limit) {
        return options.tokenizer->cut(text, limit);
      });
  for (const auto& path : files) {
    InputFile file(path, Packed::unpacked);
    if (holds_json_lines(options, path)) {
      source.add_json_lines(file);
    } else {
      source.add_text(file,
                      options.format == InputFormat::text ? Contents::taken : Contents::checked);
    }
    ++sum.files;
  }
  source.finish();
  following.finish();
  pool.finish();
  if (options.chat && !roles.empty())
    for (const auto& role : options.chat->targets().roles)
      require(roles.contains(role),
              "no message has the role \"{}\", which is to be trained on: the roles are {}. {} was "
              "not written",
              role, fmt::join(roles, ", "), options.output.string());
  require(
      !labeled || sum.documents != 2,
      "the inputs contain a single labeled answer, but KTO compares answers with those to other "
      "prompts: give at least two. {} was not written",
      options.output.string());
  sum.bytes = source.bytes();
  return sum;
}

}  // namespace

TokenizeSummary tokenize(const TokenizeOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const bool ids = options.format >= InputFormat::raw_u16;
  check(options, ids);
  std::optional<std::int64_t> vocab = options.vocab;
  if (!vocab && options.tokenizer != nullptr) vocab = options.tokenizer->vocab();

  // Lists the inputs before the output's temporary file exists, because its folder may be an input.
  const auto files = ids ? input_token_files(options) : input_files(options);
  TokenizeSummary sum;
  TokenWriter writer(options.output, options.existing,
                     vocab ? token_bytes_for(*vocab) : import_width(options.format),
                     has_mask(options) ? TargetMask::present : TargetMask::absent);
  sum = ids ? import_tokens(options, files, vocab, writer)
            : tokenize_text(options, files, *vocab, writer);
  require(sum.same.count == 0 || writer.count() > 0,
          "both answers have the same tokens to train on in {}{}: {} was not written",
          sum.same.count == 1 ? "the only pair, "
                              : fmt::format("all {} pairs, the first at ", sum.same.count),
          sum.same.first, options.output.string());
  require(writer.count() > 0, "the inputs contain no tokens: {} was not written",
          options.output.string());
  require(!sum.learnt || *sum.learnt > 0,
          "the inputs contain nothing to learn, so {} was not written. Give conversations with an "
          "assistant message that is not empty and has neither \"weight\": 0 nor \"train\": false",
          options.output.string());
  if (!vocab) vocab = std::max<std::int64_t>(writer.largest(), options.separator.value_or(0)) + 1;
  writer.finish(*vocab, options.separator, sum.documents, spec_of(options), options.documents);
  sum.tokens = writer.count();
  sum.vocab = *vocab;
  sum.seconds = seconds_since(begin);
  return sum;
}

}  // namespace trireme
