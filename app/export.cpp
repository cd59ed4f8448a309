// The `trireme export CHECKPOINT OUT` command: converts a model for other programs.
#include "lib/interchange/export.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "app/best_checkpoint.hpp"
#include "app/commands.hpp"
#include "app/fixed_models.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_choice.hpp"
#include "lib/keys/quantity.hpp"

namespace trireme {

namespace {

struct ExportArguments {
  std::string checkpoint, out, format = "safetensors", type, shard_size, base, base_name;
  bool best = false, ema = false;
};

// The format that exports adapters alone. All other formats merge adapters into their base model.
constexpr const char* adapters_format = "peft";

int export_from(const std::filesystem::path& checkpoint, const ExportArguments& a) {
  static const std::map<std::string, ElementType> types = {
      {"f32", ElementType::f32}, {"bf16", ElementType::bf16}, {"f64", ElementType::f64}};
  std::optional<ElementType> type;
  if (!a.type.empty()) type = types.at(a.type);
  CheckpointReader reader(checkpoint, weights_read(a.ema));
  const auto deck = with_base(deck_of(reader), a.base);
  const bool adapts = deck.adapter.rank > 0;
  require(a.shard_size.empty() || a.format == "safetensors",
          "--shard-size applies only to --format safetensors: the other formats do not split the "
          "weights into several files");
  require(a.format != adapters_format || adapts,
          "--format peft exports adapters, but {} has none: it is a complete model",
          reader.directory().string());
  require(adapts || (a.base.empty() && a.base_name.empty()),
          "--base and --base-name apply only to adapters, and {} has none",
          reader.directory().string());
  const auto fixed = open_fixed_models({}, deck, &reader.meta(), ModelUse::evaluation);
  auto* const base = fixed.initial.get();
  ExportSummary s;
  if (a.format == adapters_format) {
    require(a.type.empty() || a.type == "f32",
            "--format peft always writes f32: leave out --dtype");
    require(!a.base_name.empty(),
            "--format peft needs --base-name, the name or folder of the base model that PEFT "
            "loads, such as Qwen/Qwen3-0.6B");
    s = export_adapters(reader, deck.model, deck.adapter, a.base_name, a.out);
    const auto others = model_differences(model_of(*base), deck.model);
    if (!others.empty())
      log_warning(
          "the base model {} computes differently from the one that these adapters were trained "
          "with: {}",
          base->directory().string(), fmt::join(others, "; "));
  } else {
    if (const auto kept = deck.adapter.base; adapts && kept != BaseType::compute)
      log_warning(
          "the adapters are merged into the weights of {} as stored there. They were trained with "
          "these weights in {}, so the exported model computes slightly different values",
          base->directory().string(), name_of(kept));
    StoredModel model(reader, description_of(deck), base);
    if (a.format == "hdf5") {
      s = export_hdf5(std::move(model), a.out, type);
    } else {
      const auto shard =
          a.shard_size.empty() ? default_shard_bytes : parse_byte_count(a.shard_size);
      s = export_safetensors(std::move(model), a.out, type, shard);
    }
  }
  say("{}: {}{} tensors, {:.1f} MB in {}, {}\n", a.out,
      s.architecture.empty() ? "" : s.architecture + ", ", s.tensors,
      static_cast<double>(s.bytes) * 1e-6, name_of(s.type), counted(s.files, "file"));
  return 0;
}

int export_checkpoint(const ExportArguments& a) {
  if (a.best) return export_from(best_checkpoint(a.checkpoint, a.ema), a);
  CheckpointChoice choice(a.checkpoint);
  while (true) {
    const auto checkpoint = choice.find();
    try {
      return export_from(checkpoint, a);
    } catch (const Error& e) {
      if (!choice.reject(checkpoint, e.what())) throw;
    }
  }
}

}  // namespace

void add_export(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "export", "Convert a checkpoint to Hugging Face safetensors, HDF5 or a PEFT adapter");
  auto a = std::make_shared<ExportArguments>();
  command
      ->add_option("checkpoint", a->checkpoint,
                   "Checkpoint, or run directory (uses its newest intact checkpoint)")
      ->required()
      ->transform(with_environment());
  add_best(*command, a->best);
  add_ema(*command, a->ema);
  command->add_option("out", a->out, "Directory or file to write; must not exist")
      ->required()
      ->transform(with_environment());
  command
      ->add_option("--format", a->format,
                   "Output format. safetensors: directory for Hugging Face transformers. hdf5: one "
                   "file. peft: directory with the adapter and the parameters in "
                   "adapter.also_train, which the other formats merge into the weights")
      ->check(CLI::IsMember({"safetensors", "hdf5", adapters_format}))
      ->capture_default_str();
  command
      ->add_option("--dtype", a->type,
                   "Data type of the weights (default: that of the imported model, or else "
                   "the checkpoint's)")
      ->check(CLI::IsMember({"f32", "bf16", "f64"}));
  command->add_option("--shard-size", a->shard_size,
                      "Maximum size of each safetensors file, such as 500M (default: 5 GB)");
  command
      ->add_option("--base", a->base,
                   "For an adapter: checkpoint of its base model (default: model.init_from in the "
                   "adapter's deck)")
      ->transform(with_environment());
  command->add_option(
      "--base-name", a->base_name,
      "With --format peft: name of the base model in its files, such as Qwen/Qwen3-0.6B");
  command->callback([&chosen, a] { chosen = [a] { return export_checkpoint(*a); }; });
}

}  // namespace trireme
