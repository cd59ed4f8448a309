// The `trireme import FOLDER CHECKPOINT` command: converts a model from another program.
#include "lib/interchange/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/escaped.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

namespace {

// Reports that 16-bit weights are widened. Checkpoints do not store 16-bit weights.
void say_widened(const ImportSummary& s, std::string_view how) {
  for (const auto t : {ElementType::bf16, ElementType::f16})
    if (s.types.contains(t))
      say("weights in {} are stored as {} in the checkpoint, {}\n", name_of(t), name_of(s.master),
          how);
}

struct ImportArguments {
  std::string folder, checkpoint, type, base;
  std::int64_t context = 0;
  std::vector<std::string> add_tokens, add_special_tokens;
};

int import_beside(const ImportArguments& a) {
  require(!a.base.empty(),
          "{} contains adapters: name the checkpoint of their base model with --base", a.folder);
  require(a.type.empty() && a.context == 0 && a.add_tokens.empty() && a.add_special_tokens.empty(),
          "--dtype, --context, --add-token and --add-special-token apply only to complete models: "
          "adapters use the values of the base model");
  const CheckpointReader base(find_checkpoint(a.base));
  const auto s = import_adapters(a.folder, a.checkpoint, base);
  const auto& adapter = s.described.adapter;
  say("{}: {} adapter of rank {} for base model {}, from {} tensors\n", a.checkpoint,
      adapter.method == AdapterMethod::dora ? "DoRA" : "LoRA", adapter.rank,
      base.directory().string(), s.tensors);
  say_widened(s, "and in exports of it");
  return 0;
}

int import_model(const ImportArguments& a) {
  if (is_adapter_folder(a.folder)) return import_beside(a);
  require(a.base.empty() || !std::filesystem::exists(a.folder),
          "--base applies only to adapters, and {} has no adapter_config.json", a.folder);
  ImportOptions options;
  if (!a.type.empty()) options.master = a.type == "f64" ? DType::f64 : DType::f32;
  if (a.context > 0) options.context = a.context;
  for (const auto& text : a.add_tokens) options.add_tokens.push_back({text, false});
  for (const auto& text : a.add_special_tokens) options.add_tokens.push_back({text, true});
  const auto s = import_folder(a.folder, a.checkpoint, options);
  const auto parameters = make_spec(s.described.model).parameter_count();
  say("{}: {:.2f}M parameters in {}, from {} tensors of {}{}; tokenizer: {}\n", a.checkpoint,
      static_cast<double>(parameters) * 1e-6, name_of(s.master), s.tensors,
      counted(s.files, "file"),
      s.skipped == 0 ? "" : fmt::format(" ({} buffers skipped)", s.skipped), s.tokenizer);
  say_widened(s, s.types == std::set{ElementType::bf16}
                     ? "which export converts back to bf16"
                     : "and in exports of it unless you pass --dtype bf16 to export");
  for (std::size_t i = 0; i < options.add_tokens.size(); ++i)
    say("token {} has the id {}{}\n", escaped(options.add_tokens[i].text), s.added_ids[i],
        s.known_tokens[i] ? ", as before" : "");
  if (s.added_rows > 0)
    say("{} added to the embedding and the head, which now have {} rows each. Each new row is the "
        "mean of the rows in the folder\n",
        counted(static_cast<std::size_t>(s.added_rows), "row"), s.described.model.vocab);
  if (!std::ranges::all_of(s.known_tokens, std::identity{}))
    say("to train the rows of the new tokens with adapters, name the embedding and the head in "
        "adapter.also_train\n");
  const auto context = s.described.context, positions = s.described.model.max_context;
  if (context < positions)
    say("samples have {} tokens (model.context); the model supports {} positions "
        "(model.max_context), which exports keep\n",
        context, positions);
  return 0;
}

}  // namespace

void add_import(CLI::App& app, std::function<int()>& chosen) {
  auto* command =
      app.add_subcommand("import", "Convert a Hugging Face model or PEFT adapter to a checkpoint");
  auto a = std::make_shared<ImportArguments>();
  command
      ->add_option("folder", a->folder,
                   "Directory of the model (config.json and safetensors files) or PEFT adapter")
      ->required()
      ->transform(with_environment());
  command->add_option("checkpoint", a->checkpoint, "Checkpoint to write; must not exist")
      ->required()
      ->transform(with_environment());
  command
      ->add_option("--dtype", a->type,
                   "Type of the master weights: f32, or f64 for precision.compute = \"f64\" "
                   "(default: f64 if the weights are f64, else f32)")
      ->check(CLI::IsMember({"f32", "f64"}));
  command
      ->add_option("--context", a->context,
                   "Tokens per training sample, stored as model.context (default: the model's "
                   "maximum)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  command
      ->add_option(
          "--add-token", a->add_tokens,
          "Token to add to the tokenizer, for example \"<think>\"; may be repeated. If the "
          "embedding has no row for the token, import adds rows to the embedding and the head")
      ->allow_extra_args(false);
  command
      ->add_option("--add-special-token", a->add_special_tokens,
                   "Special token to add, for example \"<|im_start|>\"; may be repeated. Chat "
                   "templates can write the token. In messages, its text remains plain text")
      ->allow_extra_args(false);
  command->add_option("--base", a->base, "For a PEFT adapter: checkpoint of its base model")
      ->transform(with_environment());
  command->callback([&chosen, a] { chosen = [a] { return import_model(*a); }; });
}

}  // namespace trireme
