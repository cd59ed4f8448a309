// The `trireme generate CHECKPOINT --prompt TEXT --tokens N` command.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/loaded_model.hpp"
#include "app/output.hpp"
#include "app/prompts.hpp"
#include "app/tokenizers.hpp"
#include "app/whole_number.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/run/generation.hpp"
#include "lib/run/stop_texts.hpp"
#include "lib/tokenizer/tokenizer.hpp"

namespace trireme {

namespace {

struct GenerateArguments {
  ModelArguments model;
  std::string prompt, prompt_file, prompts, output;
  std::vector<std::string> stop;
  std::int64_t tokens = 100, batch = 8;
  bool ignore_eos = false, no_cache = false, chat = false;
  ChatOptions chat_options;
  ExistingFile existing = ExistingFile::stays;
  Sampling sampling;

  const FileKind& kind() const { return chat ? answered_conversations_file : continuations_file; }

  std::string text() const {
    return fmt::format(
        "generate {} --prompt '{}' --prompt-file '{}' --prompts '{}' --output '{}' {} --stop {} "
        "--tokens {} --batch-size {} --ignore-eos {} --no-cache {} --chat {} --template '{}' "
        "--template-kwargs '{}' {} {} {} {}",
        model.text(), prompt, prompt_file, prompts, output, existing == ExistingFile::replaced,
        fmt::join(stop, " "), tokens, batch, ignore_eos, no_cache, chat, chat_options.chat_template,
        chat_options.variables, sampling.temperature, sampling.top_k, sampling.top_p,
        sampling.seed);
  }
};

// Returns a validator that rejects NaN. Range checks accept NaN, because it is neither below nor
// above any bound.
CLI::Validator a_number() {
  return {[](const std::string& text) {
            return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is not a number" : "";
          },
          ""};
}

// Returns a validator of seeds. The command line library's own conversion wraps around at 2^64.
CLI::Validator a_seed() {
  return {[](const std::string& text) {
            std::uint64_t seed = 0;
            const auto end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, seed);
            return read.ec == std::errc() && read.ptr == end
                       ? std::string()
                       : text + " is not a seed: use a whole number from 0 to 2^64 - 1";
          },
          ""};
}

// Returns the prompts on all ranks. Rank 0 reads the file. Collective.
std::vector<Prompt> prompts_of(const Communicator& world, const GenerateArguments& a) {
  std::string text = a.prompt;
  const auto& path = a.prompts.empty() ? a.prompt_file : a.prompts;
  if (!path.empty()) {
    at_root(world, Pace::slow, [&] {
      require_another_file(a.output, path);
      if (!a.output.empty()) require_output(a.output, a.kind(), a.existing);
      text = read_text(path);
    });
    world.broadcast(text);
  }
  if (a.prompts.empty())
    return {a.chat ? prompt_of_user(std::move(text)) : Prompt{.text = std::move(text)}};
  std::vector<Prompt> prompts;
  const auto form = a.chat ? PromptsAre::conversations : PromptsAre::texts;
  together(world, [&] { prompts = parse_prompts(path, text, form); });
  return prompts;
}

// Texts of the requests and of the tokens generated for them. All ids are decoded each time,
// because the text of a token may depend on earlier tokens.
class Texts {
 public:
  Texts(const Tokenizer& tokenizer, std::span<const Request> requests,
        const std::vector<std::string>& stops)
      : tokenizer_(tokenizer), requests_(requests), stops_(stops) {
    for (const auto& r : requests) begins_.push_back(tokenizer.decode(r.ids).size());
  }
  // Returns the generated text, including a stop text and the text after it.
  std::string raw(std::size_t i, std::span<const std::int32_t> fresh) const {
    auto ids = requests_[i].ids;
    ids.insert(ids.end(), fresh.begin(), fresh.end());
    const auto text = tokenizer_.decode(ids);
    return text.substr(std::min(text.size(), begins_[i]));
  }
  std::string of(std::size_t i, std::span<const std::int32_t> fresh) const {
    auto text = raw(i, fresh);
    text.resize(std::min(text.size(), stop_at(text, stops_)));
    return text;
  }
  bool stopped(std::size_t i, std::span<const std::int32_t> fresh) const {
    return !stops_.empty() && stop_at(raw(i, fresh), stops_) != std::string::npos;
  }

 private:
  const Tokenizer& tokenizer_;
  std::span<const Request> requests_;
  const std::vector<std::string>& stops_;
  std::vector<std::size_t> begins_;  // lengths in bytes of the prompts
};

// Ends generation at the text that ends an answer, which is a token or plain text.
void end_with(const std::string& end_of_answer, const Tokenizer& tokenizer,
              std::vector<std::int32_t>& ends, std::vector<std::string>& stops) {
  if (end_of_answer.empty()) return;
  const auto id = tokenizer.id_of(end_of_answer);
  if (!id) stops.push_back(end_of_answer);
  if (id && std::ranges::find(ends, *id) == ends.end()) ends.push_back(*id);
}

std::vector<std::int32_t> ids_at(std::size_t i, const std::vector<Prompt>& prompts,
                                 const Tokenizer& tokenizer, const ChatWriter* chat) {
  try {
    return ids_of(prompts[i], tokenizer, chat);
  } catch (const Error& e) {
    if (prompts.size() == 1) throw;
    fail("prompt {}: {}", i + 1, e.what());
  }
}

// Token ids of the prompts.
struct EncodedPrompts {
  std::vector<std::vector<std::int32_t>> ids{};
  std::string end_of_answer{};  // empty for texts
};

// Encodes conversations. Rank 0 runs the chat template. Collective.
EncodedPrompts encoded_chats(const Communicator& world, const std::vector<Prompt>& prompts,
                             const LoadedModel& model, const Tokenizer& tokenizer,
                             const GenerateArguments& a) {
  std::string text;
  at_root(world, Pace::slow, [&] {
    const auto writer = chat_writer(a.chat_options, tokenizer, model.meta(), a.model.checkpoint);
    Json ids = Json::array();
    for (std::size_t i = 0; i < prompts.size(); ++i)
      ids.push_back(ids_at(i, prompts, tokenizer, writer.get()));
    text = Json{{"ids", std::move(ids)}, {"end", writer->end_of_answer()}}.dump();
  });
  world.broadcast(text);
  const auto all = parse_json(text);
  return {all.at("ids").get<std::vector<std::vector<std::int32_t>>>(), all.at("end")};
}

std::vector<Request> requests_of(const std::vector<Prompt>& prompts, EncodedPrompts encoded,
                                 std::int64_t context, const GenerateArguments& a) {
  std::vector<Request> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto name = prompts.size() == 1 ? "the prompt" : fmt::format("prompt {}", i + 1);
    auto& r = requests.emplace_back(Request{{}, prompts[i].tokens.value_or(a.tokens), a.sampling});
    r.ids = std::move(encoded.ids[i]);
    require(!r.ids.empty(), "{} contains no tokens: give a longer one", name);
    if (std::ssize(r.ids) > context)
      log_warning("{} has {} tokens, but the model sees only the last {} (model.context)", name,
                  r.ids.size(), context);
    // Each prompt has its own stream of random numbers.
    r.sampling.seed = prompts[i].seed.value_or(a.sampling.seed + i);
  }
  return requests;
}

void print_one(const Prompt& prompt, const Texts& texts, GenerationSettings& settings,
               const std::vector<std::string>& stops, const std::function<void()>& run) {
  fmt::print("{}", prompt.text);
  std::size_t printed = 0;
  const auto show = [&](std::string_view text, std::size_t size) {
    if (size <= printed) return;
    fmt::print("{}", text.substr(printed, size - printed));
    flush_output();
    printed = size;
  };
  std::string last;
  settings.emit = [&](std::size_t i, std::span<const std::int32_t> fresh) {
    last = texts.raw(i, fresh);
    show(last, stable_bytes(last, stops));
  };
  run();
  show(last, std::min(last.size(), stop_at(last, stops)));
  fmt::print("\n");
}

int generate_text(const Communicator& world, const GenerateArguments& a) {
  const auto prompts = prompts_of(world, a);
  const auto loaded = LoadedModel::open(world, a.model, ModelUse::generation);
  auto& model = *loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<Request> requests;
  std::vector<std::int32_t> ends;
  auto stops = a.stop;
  together(world, [&] {
    tokenizer = model.tokenizer(a.model.checkpoint);
    require(!a.chat || tokenizer->spec().kind != TokenizerKind::none,
            "{} has no tokenizer, and --chat needs one: leave out --chat, and give the prompt as "
            "ids, such as --prompt '1 2 3'",
            a.model.checkpoint);
  });
  EncodedPrompts encoded;
  if (a.chat) encoded = encoded_chats(world, prompts, model, *tokenizer, a);
  together(world, [&] {
    for (std::size_t i = 0; !a.chat && i < prompts.size(); ++i)
      encoded.ids.push_back(ids_at(i, prompts, *tokenizer, nullptr));
    const auto end_of_answer = encoded.end_of_answer;
    requests = requests_of(prompts, std::move(encoded), model.deck().data.context, a);
    if (a.ignore_eos) return;
    ends = model.ends(*tokenizer, a.model.checkpoint);
    end_with(end_of_answer, *tokenizer, ends, stops);
  });
  const Texts texts(*tokenizer, requests, stops);
  GenerationSettings settings{
      .vocab = tokenizer->vocab(), .ends = ends, .batch = a.batch, .cache = !a.no_cache};
  settings.stops = [&](std::size_t i, std::span<const std::int32_t> fresh) {
    return texts.stopped(i, fresh);
  };
  const auto run = [&] { generate(model.trainer(), requests, settings); };
  if (!model.speaks()) {
    run();
  } else if (a.prompts.empty()) {
    print_one(prompts[0], texts, settings, stops, run);
  } else {
    ContinuationWriter writer(a.output, a.kind(), a.existing);
    settings.ended = [&](std::size_t i, const Continued& c) {
      writer.add(i, prompts[i], texts.of(i, c.ids), static_cast<std::int64_t>(c.ids.size()),
                 name_of(c.ended));
    };
    run();
    writer.finish();
  }
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("generate", "Generate text with a trained model");
  auto a = std::make_shared<GenerateArguments>();
  add_model_arguments(*command, a->model);
  auto* prompt =
      command->add_option("--prompt", a->prompt,
                          "Text to continue. If the checkpoint has no tokenizer, give token ids");
  command->add_option("--prompt-file", a->prompt_file, "Read the prompt from this file")
      ->excludes(prompt)
      ->transform(with_environment());
  auto* prompts =
      command
          ->add_option(
              "--prompts", a->prompts,
              "File of prompts: one per line, or a .jsonl file of objects with \"prompt\" and "
              "optionally \"tokens\" and \"seed\"")
          ->excludes(prompt)
          ->excludes("--prompt-file")
          ->transform(with_environment());
  auto* chat = command->add_flag("--chat", a->chat,
                                 "Treat each prompt as a user's message (in a .jsonl file: as a "
                                 "conversation) and print the assistant's answer");
  add_chat_options(*command, a->chat_options, chat);
  auto* output =
      command
          ->add_option(
              "--output", a->output,
              "With --prompts: file to write results to, as JSON lines (default: standard output)")
          ->needs(prompts)
          ->transform(output_named)
          ->transform(with_environment());
  add_overwrite(*command, a->existing)->needs(output);
  command
      ->add_option("--batch-size", a->batch,
                   "With --prompts: number of prompts processed at once on each data-parallel rank")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--stop", a->stop,
                   "Stop when this text is generated, and leave the text out. The option may be "
                   "given several times")
      ->allow_extra_args(false)
      ->check([](const std::string& t) { return t.empty() ? "the text must not be empty" : ""; });
  command->add_flag("--ignore-eos", a->ignore_eos, "Continue past end-of-text tokens");
  command->add_flag("--no-cache", a->no_cache,
                    "Turn off the key-value cache: recompute the whole context for every token");
  command->add_option("--tokens", a->tokens, "Maximum number of tokens to generate")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  auto& s = a->sampling;
  command
      ->add_option("--temperature", s.temperature,
                   "Sampling temperature. 0 always picks the most likely token")
      ->check(CLI::Range(0.0, 1e6))
      ->check(a_number())
      ->capture_default_str();
  command->add_option("--top-k", s.top_k, "Sample from the k most likely tokens only. 0 means all")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command
      ->add_option("--top-p", s.top_p,
                   "Sample from the smallest set of most likely tokens with a total probability "
                   "of p")
      ->check(CLI::Range(0.0, 1.0))
      ->check(a_number())
      ->capture_default_str();
  command
      ->add_option("--seed", s.seed,
                   "Random seed. With --prompts, prompt i (counted from 0) uses seed + i")
      ->check(a_seed())
      ->capture_default_str();
  command->callback([&chosen, a] {
    chosen = [a] {
      return on_all_ranks(a->text(), [&](const Communicator& w) { return generate_text(w, *a); });
    };
  });
}

}  // namespace trireme
