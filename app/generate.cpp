// trireme generate CHECKPOINT --prompt TEXT --tokens N
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/run/generation.hpp"

namespace trireme {

namespace {

struct GenerateArguments {
  std::string checkpoint, prompt, prompt_file, backend;
  std::int64_t tokens = 100, threads = 0;
  Sampling sampling;
};

// A NaN is neither below nor above any bound.
CLI::Validator a_number() {
  return {[](const std::string& text) {
            return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number" : "";
          },
          ""};
}

// Conversions of the command line wrap around.
CLI::Validator a_seed() {
  return {[](const std::string& text) {
            std::uint64_t seed = 0;
            const auto end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, seed);
            return read.ec == std::errc() && read.ptr == end
                       ? std::string()
                       : text + " is no seed: a whole number from 0 to 2^64 - 1";
          },
          ""};
}

std::string prompt_of(const GenerateArguments& a) {
  if (a.prompt_file.empty()) return a.prompt;
  std::ifstream file(a.prompt_file, std::ios::binary);
  std::error_code unknown;
  require(file.is_open() && std::filesystem::is_regular_file(a.prompt_file, unknown),
          "cannot read the prompt file {}: {}", a.prompt_file,
          file.is_open() ? "it is no regular file" : std::strerror(errno));
  return {std::istreambuf_iterator<char>(file), {}};
}

TokenizerKind kind_of(std::string_view name, const std::string& checkpoint) {
  for (const auto kind : {TokenizerKind::bytes, TokenizerKind::sentencepiece})
    if (name_of(kind) == name) return kind;
  fail("{} holds no tokenizer to encode the prompt with: it was trained on token files without one",
       checkpoint);
}

int generate_text(const GenerateArguments& a) {
  const auto loaded = LoadedModel::open(a.checkpoint, a.backend, a.threads);
  auto& model = *loaded;
  const auto tokenizer = make_tokenizer(
      {kind_of(model.meta().tokenizer_kind, a.checkpoint), model.meta().tokenizer}, a.checkpoint);
  const auto prompt = prompt_of(a);
  auto ids = tokenizer->encode(prompt);
  if (ids.empty()) {
    require(tokenizer->separator().has_value(), "the prompt holds no token: give a longer one");
    ids.push_back(*tokenizer->separator());
  }
  fmt::print("{}", prompt);
  // All ids are decoded each time: a token's text may depend on those before it. A character of
  // which bytes are missing decodes to U+FFFD and is printed once they are there.
  constexpr std::string_view unfinished = "\xEF\xBF\xBD";
  std::size_t printed = tokenizer->decode(ids).size();
  const auto show = [&](bool all) {
    const auto text = tokenizer->decode(ids);
    if (text.size() <= printed || (!all && text.ends_with(unfinished))) return;
    fmt::print("{}", std::string_view(text).substr(printed));
    flush_output();
    printed = text.size();
  };
  generate(model.trainer(), ids, a.tokens, a.sampling, tokenizer->vocab(), [&] { show(false); });
  show(true);
  fmt::print("\n");
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("generate", "text from a trained model");
  auto a = std::make_shared<GenerateArguments>();
  command->add_option("checkpoint", a->checkpoint, "a checkpoint or run directory")
      ->required()
      ->transform(with_environment());
  auto* prompt = command->add_option("--prompt", a->prompt, "what the text begins with");
  command->add_option("--prompt-file", a->prompt_file, "the same from a file")
      ->excludes(prompt)
      ->transform(with_environment());
  command->add_option("--tokens", a->tokens, "how many to generate")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  auto& s = a->sampling;
  command->add_option("--temperature", s.temperature, "0: always the most likely token")
      ->check(CLI::Range(0.0, 1e6))
      ->check(a_number())
      ->capture_default_str();
  command->add_option("--top-k", s.top_k, "only the k most likely tokens; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--top-p", s.top_p, "only the most likely tokens whose probabilities reach p")
      ->check(CLI::Range(0.0, 1.0))
      ->check(a_number())
      ->capture_default_str();
  command->add_option("--seed", s.seed, "seed of the sampling")
      ->check(a_seed())
      ->capture_default_str();
  command->add_option("--backend", a->backend, "as run.backend (default: the deck's)");
  command->add_option("--threads", a->threads, "as run.threads (default: the deck's)")
      ->check(CLI::Range(0, 4096));
  command->callback([&chosen, a] { chosen = [a] { return generate_text(*a); }; });
}

}  // namespace trireme
