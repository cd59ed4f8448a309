#include "lib/corpus/tokenize_settings.hpp"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "lib/base/error.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/chat/chat_text.hpp"
#include "lib/corpus/inputs.hpp"
#include "lib/corpus/item_encoder.hpp"
#include "lib/tokenizer/same_tokenizer.hpp"

namespace trireme {

bool imports_ids(const TokenizeOptions& o) {
  return o.format >= InputFormat::raw_u16;
}

void check_options(const TokenizeOptions& o) {
  require(o.prompt.empty() == o.completion.empty(),
          "--prompt and --completion need each other: give both or neither");
  require(imports_ids(o) || o.tokenizer != nullptr,
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
  require(o.weight.empty() || o.documents == Documents::single,
          "--weight is for single documents, but {} cannot have weights: leave out --weight or {}",
          names_of(o.documents).many, names_of(o.documents).option);
  require(o.weight.empty() || !imports_ids(o),
          "--weight reads JSON lines, not token ids: leave out --from");
  require(!o.separator || (*o.separator >= 0 && *o.separator < vocab),
          "separator {} is not in the vocabulary of {}: choose an id below it, or none",
          o.separator.value_or(-1), vocab);
}

std::vector<std::string> input_text_files(const TokenizeOptions& options) {
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

void add_file(const TokenizeOptions& options, InputFile& file, TextSource& source,
              std::int64_t first_line) {
  if (holds_json_lines(options, file.path()))
    source.add_json_lines(file, first_line);
  else
    source.add_text(file,
                    options.format == InputFormat::text ? Contents::taken : Contents::checked);
}

TokenizerSpec stored_tokenizer(const TokenizeOptions& o) {
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

int threads_for(const TokenizeOptions& o) {
  if (o.threads > 0) return o.threads;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  const int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  return std::max(1, n);
}

// Returns the day, because a chat template may write it.
static std::string today() {
  const auto now = std::time(nullptr);
  std::tm day{};
  localtime_r(&now, &day);
  return fmt::format("{}-{}-{}", day.tm_year, day.tm_mon, day.tm_mday);
}

std::string settings_text(const TokenizeOptions& o) {
  const auto& spec = o.tokenizer->spec();
  auto text = fmt::format(
      "trireme {} {}\nformat {}\nfield '{}' '{}' '{}' '{}'\ndocuments {}\ntokenizer {} {}\n"
      "separator {}\nvocabulary {}\n",
      version(), commit(), static_cast<int>(o.format), o.field, o.prompt, o.completion, o.weight,
      static_cast<int>(o.documents), name_of(spec.kind), to_string(hash128(spec.bytes)),
      o.separator.value_or(-1), o.vocab.value_or(-1));
  if (o.chat == nullptr) return text;
  const auto& t = o.chat->targets();
  text += fmt::format("template {}\nroles {}\nlast {}\nend {}\n",
                      to_string(hash128(chat_text_of(o.chat->stored()))), fmt::join(t.roles, ","),
                      t.only_last, t.end_of_turn);
  if (o.chat->reads("strftime_now")) text += fmt::format("day {}\n", today());
  return text;
}

}  // namespace trireme
