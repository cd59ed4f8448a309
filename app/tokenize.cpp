// The `trireme tokenize` command: converts text, JSON lines or ids from other programs to a token
// file.
#include "lib/corpus/tokenize.hpp"

#include <fmt/ranges.h>
#include <malloc.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/output.hpp"
#include "app/tokenizers.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/log.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/comm/agree.hpp"
#include "lib/corpus/tokenize_on_ranks.hpp"
#include "lib/keys/quantity.hpp"
#include "lib/launch/threads.hpp"
#include "lib/run/signals.hpp"
#include "lib/train/objective.hpp"

namespace trireme {

namespace {

struct Arguments {
  TokenizeOptions options;
  std::string output, tokenizer, tiktoken, separator = "auto";
  bool chat = false;
  ChatOptions chat_options;
  std::string learn = "all", learn_end_of_turn = "yes";
  std::optional<std::string> shown;  // name of a template to print
  std::string part_size;
  std::string text;  // the command line
};

const std::map<std::string, InputFormat> formats = {
    {"auto", InputFormat::by_name},      {"text", InputFormat::text},
    {"jsonl", InputFormat::jsonl},       {"raw-u16", InputFormat::raw_u16},
    {"raw-u32", InputFormat::raw_u32},   {"llmc", InputFormat::llmc},
    {"megatron", InputFormat::megatron}, {"npy", InputFormat::npy},
    {"nanogpt", InputFormat::nanogpt}};

// Returns the separator that `text` names: "none", an id, the text of a token, or "auto". "auto" is
// the tokenizer's own separator, and none for imported ids.
std::optional<std::int32_t> chosen_separator(const std::string& text, const Tokenizer* tokenizer,
                                             bool imports) {
  if (text == "none") return std::nullopt;
  if (text == "auto") {
    if (tokenizer == nullptr || imports) return std::nullopt;
    const auto own = tokenizer->separator();
    require(own.has_value(),
            "this tokenizer names no end-of-text token: pass --separator ID or --separator none");
    return own;
  }
  const auto id = number_in<std::int32_t>(text);
  const bool is_id = id && *id >= 0;
  if (const auto named = tokenizer && !is_id ? tokenizer->id_of(text) : std::nullopt) return named;
  require(is_id, "--separator {}: use auto, none, an id, or the text of one token", text);
  return id;
}

// Returns `usual` or, if the chat template writes this token, another special token that the
// template does not write, so that it can divide conversations.
std::optional<std::int32_t> separator_beside(const ChatWriter& chat, const Tokenizer& tokenizer,
                                             std::optional<std::int32_t> usual) {
  const auto used = chat.tokens();
  const auto is_used = [&](const std::string& token) {
    return std::ranges::find(used, token) != used.end();
  };
  if (!usual || !std::ranges::any_of(
                    used, [&](const auto& token) { return tokenizer.id_of(token) == usual; }))
    return usual;
  auto choices = tokenizer.special_tokens();
  const auto named = token_variables(tokenizer);
  std::erase_if(choices, [&](const auto& token) {
    return is_used(token) || token == named.value("bos_token", "") ||
           token == named.value("unk_token", "");
  });
  const auto rank = [&](const std::string& token) {
    return token == named.value("pad_token", "") ? 0 : token == "<|endoftext|>" ? 1 : 2;
  };
  std::ranges::stable_sort(choices, {}, rank);
  if (choices.empty()) return usual;
  log_info("the separator after each conversation is {}, because the chat template writes {}",
           choices[0], tokenizer.decode({&*usual, 1}));
  return tokenizer.id_of(choices[0]);
}

// Keeps freed blocks in the process. Blocks of text and ids are freed by the megabyte. If each was
// returned to the kernel, the next allocation would cost a page fault for every 4 KiB, which is
// half of the time of tokenizing bytes.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

// Returns what --learn and --learn-end-of-turn say.
ChatTargets targets_of(const Arguments& a) {
  ChatTargets targets;
  targets.only_last = a.learn == "last";
  if (a.learn != "all" && a.learn != "last") {
    targets.roles.clear();
    for (const auto role : split(a.learn, ',')) {
      const auto begin = std::min(role.find_first_not_of(' '), role.size());
      targets.roles.emplace_back(role.substr(begin, role.find_last_not_of(' ') + 1 - begin));
    }
  }
  targets.end_of_turn = a.learn_end_of_turn == "yes";
  return targets;
}

// The tokenizer and the chat template, which the options refer to.
struct Encoding {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatWriter> chat;
};

// Reads the tokenizer and the chat template, and completes the options.
Encoding prepare(Arguments& a) {
  require(a.output != "-",
          "a token file cannot be written to standard output, because its header is written last. "
          "Name a file with --output");
  auto& o = a.options;
  const bool imports = o.format >= InputFormat::raw_u16;
  if (a.tokenizer.empty() && !imports) a.tokenizer = "bytes";
  Encoding e;
  auto& [tokenizer, chat] = e;
  if (!a.tokenizer.empty()) tokenizer = tokenizer_at(a.tokenizer, a.tiktoken);
  o.output = a.output;
  o.tokenizer = tokenizer.get();
  const auto kind = names_of(o.documents);
  require(kind.option.empty() || !imports, "{} reads JSON lines, not token ids: leave out --from",
          kind.option);
  require(!a.chat || !imports, "--chat reads JSON lines, not token ids: leave out --from");
  require(
      !a.chat || !a.chat_options.chat_template.empty() ||
          tokenizer->spec().kind == TokenizerKind::huggingface,
      "--chat needs a tokenizer whose tokens separate the turns: pass --tokenizer with the folder "
      "of the model to be tuned, or a --template file that uses plain text");
  if (a.chat) chat = chat_writer(a.chat_options, *tokenizer, targets_of(a));
  o.chat = chat.get();
  if (chat && chat->reads("strftime_now"))
    log_info(
        "the chat template may write today's date: to get the same tokens on another day, set its "
        "variable for the date with --template-kwargs");
  o.separator = chosen_separator(a.separator, tokenizer.get(), imports);
  if (chat && a.separator == "auto") o.separator = separator_beside(*chat, *tokenizer, o.separator);
  if (!a.part_size.empty()) {
    o.part_bytes = parse_byte_count(a.part_size);
    require(o.part_bytes > 0, "--part-size {}: give a size, such as 64M", a.part_size);
  }
  return e;
}

// Prints what was written, and warns of what may be wrong with the inputs.
void report(const Arguments& a, const TokenizeSummary& s) {
  const auto kind = names_of(a.options.documents);
  if (s.same.count > 0)
    log_warning(
        "{} left out because the chosen and the rejected answer have the same tokens to train on; "
        "the first is {}",
        s.same.count == 1 ? "a pair is" : fmt::format("{} pairs are", s.same.count), s.same.first);
  if (s.unweighted.count > 0)
    log_warning("{} no field \"{}\" and therefore the weight 1, the first at {}",
                s.unweighted.count == 1 ? "a document has"
                                        : fmt::format("{} documents have", s.unweighted.count),
                a.options.weight, s.unweighted.first);
  if (s.empty.count > 0)
    log_warning("{} not trained on, the first at {}",
                s.empty.count == 1 ? "an empty answer is"
                                   : fmt::format("{} empty answers are", s.empty.count),
                s.empty.first);
  if (s.untrained.count > 0)
    log_warning("{} no token that is trained on, the first at {}",
                s.untrained.count == 1 ? "a conversation has"
                                       : fmt::format("{} conversations have", s.untrained.count),
                s.untrained.first);
  if (s.left_out.count > 0)
    log_warning("the chat template leaves out the content of {}, the first is {}",
                counted(s.left_out.count, "message"), s.left_out.first);
  if (s.left_out_thoughts.count > 0)
    log_warning(
        "the chat template leaves out the thoughts of {}, the first is {}. To train on all "
        "thoughts, pass a template that writes thoughts to --template",
        counted(s.left_out_thoughts.count, "message"), s.left_out_thoughts.first);
  if (s.plain_names.count > 0)
    log_warning(
        "names of special tokens occur {} in messages or tools and become plain text. The first is "
        "{}",
        counted(s.plain_names.count, "time"), s.plain_names.first);
  for (const auto& [key, found] : s.unread)
    log_warning("\"{}\" is not read and therefore not in the text: {}, the first at {}", key,
                counted(found.count, "line"), found.first);
  if (s.alike.count > 0)
    log_warning(
        "of {}, {} followed by a line with the same prompt or the same answer, the first at {}. "
        "The following answer should be unsuitable for the prompt, because KTO uses it as the "
        "mismatched answer: shuffle the lines",
        counted(s.documents / 2, kind.one),
        s.alike.count == 1 ? "one is" : fmt::format("{} are", s.alike.count), s.alike.first);
  const double megabytes = static_cast<double>(s.bytes) / 1e6;
  say("{}: {}, {} tokens (vocabulary size {}{}) from {:.1f} MB in {}, "
      "{:.2f} s, {:.1f} MB/s\n",
      a.output,
      kind.option.empty() ? counted(s.documents, "document")
                          : fmt::format("{} ({})", counted(s.documents / 2, kind.one),
                                        counted(s.documents, "document")),
      s.tokens, s.vocab,
      s.learnt ? fmt::format(", {} tokens trained on", *s.learnt) : std::string(), megabytes,
      counted(s.files, "file"), s.seconds, s.seconds > 0 ? megabytes / s.seconds : 0.0);
}

// Records the signal that asks this rank to stop, during its lifetime.
class StopSignal {
 public:
  StopSignal() {
    watch_.announce([this](std::string_view name, RunRequest request) {
      const std::lock_guard lock(mutex_);
      if (request == RunRequest::stop) name_ = name;
    });
  }
  // Returns an empty text if no signal has arrived.
  std::string name() {
    const std::lock_guard lock(mutex_);
    return name_;
  }

 private:
  std::mutex mutex_;
  std::string name_;
  SignalWatch watch_;  // its thread uses the members above
};

int run(const Communicator& world, Arguments a) {
  if (a.shown) {
    if (world.rank() == 0) print(chat_template_given(*a.shown).jinja);
    return 0;
  }
  keep_freed_memory();
  auto& o = a.options;
  // A single rank ends at a signal (remove_drafts_on_signals). If several ranks did so, the
  // launcher would kill some of them, and choose the exit code.
  std::optional<StopSignal> signal;
  if (world.size() > 1) {
    signal.emplace();
    o.stopped_by = [&signal] { return signal->name(); };
  }
  Encoding encoding;
  together(world, Pace::slow, [&] { encoding = prepare(a); });
  if (world.size() > 1) o.threads = launch::threads_of_rank(o.threads, world);
  TokenizeSummary s;
  try {
    s = tokenize_on_ranks(world, o);
  } catch (const StoppedJob& stop) {
    log_info("stopped by {}. To resume, run the same command again", stop.what());
    return exit_stopped_early;
  }
  if (world.rank() == 0) report(a, s);
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, std::function<int()>& chosen) {
  auto* command =
      app.add_subcommand("tokenize", "Convert text, JSON lines or token ids to a token file");
  auto a = std::make_shared<Arguments>();
  auto& o = a->options;
  auto* inputs = command
                     ->add_option("inputs", o.inputs,
                                  "Input files, directories or glob patterns; - is standard input")
                     ->required();
  auto* output = command->add_option("-o,--output", a->output, "Token file to write")->required();
  add_overwrite(*command, a->options.existing);
  command->add_option("--tokenizer", a->tokenizer,
                      "Tokenizer: bytes (default for text), a Hugging Face tokenizer.json or its "
                      "directory, a SentencePiece .model file, or a tiktoken vocabulary file");
  command->add_option("--tiktoken", a->tiktoken,
                      "Encoding of the tiktoken vocabulary file: gpt2, cl100k or llama3");
  auto* from = command
                   ->add_option("--from", o.format,
                                "Input format. auto: JSON lines for .jsonl, .ndjson and .parquet "
                                "files, text for other files. Files may be compressed with gzip or "
                                "zstd. text: each file is one document. jsonl: JSON "
                                "lines. raw-u16, raw-u32, nanogpt, npy, llmc, megatron: token ids")
                   ->transform(CLI::CheckedTransformer(formats))
                   ->option_text("FORMAT");
  auto* field =
      command
          ->add_option("--field", o.field, "JSON lines: name of the field that contains the text")
          ->capture_default_str();
  auto* prompt = command->add_option("--prompt", o.prompt,
                                     "JSON lines: name of the field that contains the prompt");
  auto* completion =
      command->add_option("--completion", o.completion,
                          "JSON lines: name of the field that contains the completion. Only "
                          "completions and separators are trained on");
  prompt->needs(completion)->excludes(field);
  completion->needs(prompt)->excludes(field);
  auto* chat = command->add_flag(
      "--chat", a->chat,
      "JSON lines: each line is a conversation. Only the assistant's messages are trained on");
  chat->excludes(field)->excludes(prompt);
  auto* preference = command->add_flag_callback(
      "--preference", [a] { a->options.documents = Documents::pairs; },
      "JSON lines: each line has a prompt, a chosen answer and a rejected answer, for "
      "train.objective = " +
          objectives_for(Documents::pairs) +
          ". Each of them is a text or, with --chat, a list of messages");
  preference->excludes(field)->excludes(prompt);
  auto* labeled = command->add_flag_callback(
      "--labeled", [a] { a->options.documents = Documents::labeled; },
      "JSON lines: each line has a prompt, a completion, and a label that is true if the "
      "completion is desirable and false otherwise, for train.objective = " +
          objectives_for(Documents::labeled) +
          ". The prompt and the completion are texts or, with --chat, lists of messages");
  labeled->excludes(field)->excludes(prompt)->excludes(preference);
  auto* weight = command->add_option(
      "--weight", o.weight,
      "JSON lines: name of the field that contains the weight of the document in the training "
      "loss: 0, or between 2^-20 and 65536. Documents without the field have the weight 1. "
      "Documents with the weight 0 are not trained on");
  add_chat_options(*command, a->chat_options, chat);
  command
      ->add_option("--learn", a->learn,
                   "With --chat: messages that are trained on. all: all messages of the assistant. "
                   "last: only its last message. Or a list of roles, such as assistant,tool")
      ->option_text("all|last|ROLES")
      ->capture_default_str()
      ->needs(chat);
  command
      ->add_option("--learn-end-of-turn", a->learn_end_of_turn,
                   "With --chat: whether the token that ends a trained message is also trained on")
      ->check(CLI::IsMember({"yes", "no"}))
      ->capture_default_str()
      ->needs(chat);
  command
      ->add_option_function<std::string>(
          "--show-template",
          [a, inputs, output](const std::string& name) {
            a->shown = name;
            inputs->required(false);
            output->required(false);
          },
          "Print a chat template and exit")
      ->trigger_on_parse()
      ->option_text("NAME|FILE");
  command
      ->add_option(
          "--separator", a->separator,
          "Token to append to each document: auto, none, an id, or the text of a token. "
          "auto: the tokenizer's end-of-text token, 0 for bytes, none for imported ids. With "
          "--chat, another special token if the template writes the end-of-text token")
      ->capture_default_str();
  command->add_option(
      "--vocab", o.vocab,
      "Vocabulary size for imported ids (default: the tokenizer's, or the largest id + 1)");
  command
      ->add_option("--threads", o.threads,
                   "Number of threads of each rank (default: one per core available to the rank)")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option(
          "--part-size", a->part_size,
          "Size of the parts into which ranks divide the inputs, such as 64M (default: 8M to "
          "256M). If a job is stopped, the same command continues with the parts that are not "
          "finished. A single rank makes parts only if this option is given")
      ->option_text("BYTES");
  command->callback([a, from, field, prompt, weight, command, &chosen] {
    const bool json = a->chat || a->options.documents != Documents::single || !field->empty() ||
                      !prompt->empty() || !weight->empty();
    if (json && from->empty()) a->options.format = InputFormat::jsonl;
    for (const auto* option : command->get_options())
      a->text += fmt::format("{} {}\n", option->get_name(), fmt::join(option->results(), " "));
    chosen = [a] {
      return on_all_ranks(a->text, [&](const Communicator& world) { return run(world, *a); });
    };
  });
}

}  // namespace trireme
