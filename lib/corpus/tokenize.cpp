#include "lib/corpus/tokenize.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/seconds.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/base/vendor_text.hpp"
#include "lib/chat/chat_text.hpp"
#include "lib/corpus/import.hpp"
#include "lib/corpus/inputs.hpp"
#include "lib/corpus/labeled_answers.hpp"
#include "lib/corpus/ordered_pool.hpp"
#include "lib/corpus/pair_documents.hpp"
#include "lib/corpus/text_source.hpp"
#include "lib/corpus/token_writer.hpp"
#include "lib/tokenizer/same_tokenizer.hpp"

namespace trireme {

static bool has_mask(const TokenizeOptions& o) {
  return o.chat || !o.prompt.empty() || o.documents != Documents::single;
}

namespace {

// Bytes of text that are in the pool. The ids that are not yet written take at most 9 times as
// much.
constexpr std::size_t text_in_flight = std::size_t{1} << 26;

struct Encoded {
  PackedTokens packed;
  std::int64_t documents = 0;
  FoundLines same{}, alike{};
};

// Encodes items; one object serves all threads.
class Encoder {
 public:
  Encoder(const TokenizeOptions& options, int token_bytes)
      : options_(options),
        token_bytes_(token_bytes),
        masked_(has_mask(options)),
        has_byte_ids_(options.tokenizer->spec().kind == TokenizerKind::bytes),
        prefix_(options.tokenizer->prefix()) {}

  Encoded operator()(const TextItem& item) const {
    Encoded out;
    if (options_.documents == Documents::labeled) {
      add_labeled(item, out);
      return out;
    }
    for (const auto& piece : item.pieces) {
      if (piece.kind == PieceKind::json_lines) {
        each_line(item.text, piece, [&](std::string_view line, std::int64_t number) {
          add_line(line, piece.file, number, out);
        });
        continue;
      }
      const auto text = std::string_view(item.text).substr(piece.begin, piece.end - piece.begin);
      const bool open = add_text(text, piece, out);
      const bool empty = text.empty() && piece.place == TextPlace::start;
      if (piece.ends_document && !empty) end_document(out, open);
    }
    return out;
  }

 private:
  void add_ids(std::span<const std::int32_t> ids, bool target, Encoded& out) const {
    out.packed.append(ids, token_bytes_);
    if (masked_)
      out.packed.targets.resize(static_cast<std::size_t>(out.packed.count), target ? 1 : 0);
  }

  // Adds the ids of a text. A separator in the text ends a document, too, if it follows another id.
  // Returns true if ids follow the last separator.
  bool add_text(std::string_view text, const TextPiece& piece, Encoded& out) const {
    require(options_.format == InputFormat::text || !is_separator('\0') || !has_byte_ids_ ||
                text.find('\0') == std::string_view::npos,
            "{} has a zero byte, which is the separator 0: remove it, or give another id with "
            "--separator (--from text tokenizes the file as it is)",
            piece.file);
    std::vector<std::int32_t> ids;
    if (piece.place == TextPlace::start && !text.empty()) add_ids(prefix_, false, out);
    encode_in_pieces(*options_.tokenizer, text, piece.place, ids);
    bool open = piece.place != TextPlace::start;
    for (const auto id : ids) {
      if (open && is_separator(id)) ++out.documents;
      open = !is_separator(id);
    }
    add_ids(ids, true, out);
    return open;
  }

  // `open` is true if the document has ids of its own.
  void end_document(Encoded& out, bool open = true) const {
    if (open) ++out.documents;
    if (options_.separator) add_ids({&*options_.separator, 1}, !options_.chat, out);
  }

  void add(const TrainingDocument& d, Encoded& out) const {
    out.packed.append(d.ids, token_bytes_);
    if (masked_)
      out.packed.targets.insert(out.packed.targets.end(), d.targets.begin(), d.targets.end());
  }

  bool is_separator(std::int32_t id) const { return id == options_.separator; }
  bool has_separator(std::span<const std::int32_t> ids) const {
    return std::ranges::any_of(ids, [&](auto id) { return is_separator(id); });
  }
  std::string separator_text() const {
    return fmt::format("{} (\"{}\")", *options_.separator,
                       escaped(options_.tokenizer->decode({&*options_.separator, 1})));
  }
  // Throws Error if `ids` contain the separator. They are a document, or its part after the prefix.
  void require_one_document(std::span<const std::int32_t> ids) const {
    if (has_separator(ids))
      fail(
          "the separator {} is inside this document and would divide it: remove it, or give "
          "another id with --separator{}",
          separator_text(), options_.documents == Documents::single ? ", or none" : "");
  }

  TrainingDocument chat_of(const Conversation& conversation, std::size_t learnt_from) const {
    TrainingDocument d;
    encode_chat(*options_.tokenizer, write_chat(*options_.chat, conversation, learnt_from), d.ids,
                d.targets);
    if (has_separator(d.ids))
      fail("the separator {} is inside this conversation, which must remain one document: give {}",
           separator_text(), other_separator());
    return d;
  }

  // Returns the document of a JSON line. If its text ends with the separator, that separator is not
  // written twice.
  TrainingDocument text_of(const Json& object) const {
    const auto field = [&](const std::string& name) -> const std::string& {
      require(object.is_object(),
              "this line is JSON, but not a JSON object: each line must be one");
      const auto found = object.find(name);
      require(found != object.end(),
              "there is no field \"{}\": name the field that contains the text with --field", name);
      require(found->is_string(), "field \"{}\" is not a string", name);
      return found->get_ref<const std::string&>();
    };
    static const std::string none;
    auto d = answer_document(*options_.tokenizer, masked_ ? field(options_.prompt) : none,
                             field(masked_ ? options_.completion : options_.field));
    if (!d.ids.empty() && is_separator(d.ids.back()) && d.targets.back() == 1) {
      d.ids.pop_back();
      d.targets.pop_back();
    }
    const auto begins = std::min(prefix_.size(), d.ids.size());
    require_one_document(std::span(d.ids).subspan(begins));
    return d;
  }

  PairDocuments pair_of(const Json& object, std::string_view line) const {
    if (options_.chat) {
      const auto pair = conversation_pair_of(object, line);
      return {chat_of(pair.chosen, pair.learnt_from), chat_of(pair.rejected, pair.learnt_from)};
    }
    auto pair = pair_of_texts(*options_.tokenizer, object);
    require_one_document(pair.chosen.ids);
    require_one_document(pair.rejected.ids);
    return pair;
  }

  // Adds a pair, except for the end of the rejected document, which the caller adds. Adds nothing
  // if both answers are the same, because such a pair teaches nothing.
  void add_pair(const PairDocuments& pair, const std::string& place, Encoded& out) const {
    if (same_answers(pair)) {
      if (out.same.count++ == 0)
        out.same.first = place + (differ_at_their_start(pair)
                                      ? " (without a prompt, the first token is not trained on)"
                                      : "");
      return;
    }
    add(pair.chosen, out);
    end_document(out);
    add(pair.rejected, out);
  }

  // Returns the document in which one answer follows the prompt of another one, or its own prompt.
  TrainingDocument labeled_document(const LabeledAnswer& prompt_of,
                                    const LabeledAnswer& answer_of) const {
    if (options_.chat) {
      auto conversation = prompt_of.turns.prompt;
      const auto& answer = answer_of.turns.answer;
      conversation.insert(conversation.end(), answer.begin(), answer.end());
      return chat_of(conversation, prompt_of.turns.prompt.size());
    }
    auto d = answer_document(*options_.tokenizer, prompt_of.prompt, answer_of.answer);
    require(!d.ids.empty(), "the document is empty: \"prompt\" and \"completion\" have no text");
    require_one_document(d.ids);
    return d;
  }

  LabeledAnswer labeled_in(std::string_view line, const std::string& file,
                           std::int64_t number) const {
    LabeledAnswer a;
    with_place(file, number, line, [&](const Json& object) {
      a = labeled_answer_of(object, line, options_.chat != nullptr);
    });
    a.place = fmt::format("{}:{}", file, number);
    return a;
  }

  bool are_alike(const LabeledAnswer& a, const LabeledAnswer& b) const {
    if (options_.chat) return a.turns.prompt == b.turns.prompt || a.turns.answer == b.turns.answer;
    return a.prompt == b.prompt || a.answer == b.answer;
  }

  // Adds each answer with its own prompt, and the answer that follows it with the same prompt.
  void add_labeled(const TextItem& item, Encoded& out) const {
    std::vector<LabeledAnswer> all;
    for (const auto& piece : item.pieces)
      each_line(item.text, piece, [&](std::string_view line, std::int64_t number) {
        all.push_back(labeled_in(line, piece.file, number));
      });
    all.push_back(labeled_in(item.next.text, item.next.file, item.next.number));
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      try {
        add(labeled_document(all[i], all[i]), out);
      } catch (const Error& e) {
        fail("{}: {}", all[i].place, e.what());
      }
      end_document(out);
      try {
        add(labeled_document(all[i], all[i + 1]), out);
      } catch (const Error& e) {
        fail("{}: its prompt with the answer of {}, which KTO compares with: {}", all[i].place,
             all[i + 1].place, e.what());
      }
      end_document(out);
      out.packed.labels.push_back(all[i].desirable ? 1 : 0);
      if (are_alike(all[i], all[i + 1]) && out.alike.count++ == 0) out.alike.first = all[i].place;
    }
  }

  // Returns advice that names a special token which conversations never contain.
  std::string other_separator() const {
    const auto& used = options_.chat->special;
    for (const auto& token : options_.tokenizer->special_tokens())
      if (std::ranges::find(used, token) == used.end())
        return fmt::format("another one, such as --separator '{}', or --separator none", token);
    return "--separator none, because the chat template uses all special tokens of the tokenizer";
  }

  void add_line(std::string_view line, const std::string& file, std::int64_t number,
                Encoded& out) const {
    const std::int64_t before = out.packed.count;
    with_place(file, number, line, [&](const Json& object) {
      if (options_.documents == Documents::pairs)
        add_pair(pair_of(object, line), fmt::format("{}:{}", file, number), out);
      else
        add(options_.chat ? chat_of(conversation_of(object, line), 0) : text_of(object), out);
    });
    if (out.packed.count > before) end_document(out);
  }

  // Calls use(object) for a line of JSON, and adds the line's place to errors.
  static void with_place(const std::string& file, std::int64_t number, std::string_view line,
                         const std::function<void(const Json&)>& use) {
    Json object;
    try {
      object = parse_json(line);
    } catch (const Error& e) {
      fail("{}:{}: this is not JSON ({}): each line must be one object", file, number, e.what());
    }
    try {
      use(object);
    } catch (const Error& e) {
      fail("{}:{}: {}", file, number, e.what());
    } catch (const Json::exception& e) {
      fail("{}:{}: this conversation cannot be read ({})", file, number, without_tag(e.what()));
    }
  }

  const TokenizeOptions& options_;
  int token_bytes_;
  bool masked_, has_byte_ids_;
  std::vector<std::int32_t> prefix_;
};

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
  return file.ends_with(".jsonl") || file.ends_with(".ndjson");
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
  spec.chat = o.chat_file;
  const auto end = o.chat ? end_of_turn(*o.chat) : std::string();
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
  if (has_mask(options)) sum.learnt = 0;
  OrderedPool<TextItem, Encoded> pool(
      options.threads > 0 ? options.threads : usable_threads(), text_in_flight,
      Encoder(options, token_bytes_for(vocab)), [&](Encoded encoded) {
        if (sum.learnt) *sum.learnt += std::ranges::count(encoded.packed.targets, std::uint8_t{1});
        writer.append(encoded.packed);
        sum.documents += encoded.documents;
        const auto count = [](FoundLines& all, FoundLines& here) {
          if (all.count == 0) all.first = std::move(here.first);
          all.count += here.count;
        };
        count(sum.same, encoded.same);
        count(sum.alike, encoded.alike);
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
    InputFile file(path);
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
          "the inputs contain nothing to learn, because no conversation has a turn of the "
          "assistant: {} was not written",
          options.output.string());
  if (!vocab) vocab = std::max<std::int64_t>(writer.largest(), options.separator.value_or(0)) + 1;
  writer.finish(*vocab, options.separator, sum.documents, spec_of(options), options.documents);
  sum.tokens = writer.count();
  sum.vocab = *vocab;
  sum.seconds = seconds_since(begin);
  return sum;
}

}  // namespace trireme
