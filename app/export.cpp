// trireme export CHECKPOINT OUT: a model for other programs.
#include "lib/interchange/export.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/io/checkpoint_list.hpp"
#include "lib/keys/quantity.hpp"

namespace trireme {

namespace {

struct ExportArguments {
  std::string checkpoint, out, format = "safetensors", type, shard_size;
};

int export_checkpoint(const ExportArguments& a) {
  static const std::map<std::string, ElementType> types = {
      {"f32", ElementType::f32}, {"bf16", ElementType::bf16}, {"f64", ElementType::f64}};
  std::optional<ElementType> type;
  if (!a.type.empty()) type = types.at(a.type);
  CheckpointReader reader(find_checkpoint(a.checkpoint));
  const auto model = model_of(reader);
  ExportSummary s;
  if (a.format == "hdf5") {
    require(a.shard_size.empty(), "--shard-size is for --format safetensors: HDF5 is one file");
    s = export_hdf5(reader, model, a.out, type);
  } else {
    const auto shard = a.shard_size.empty() ? default_shard_bytes : parse_byte_count(a.shard_size);
    s = export_safetensors(reader, model, a.out, type, shard);
  }
  say("{}: {}{} tensors, {:.1f} MB in {}, {}\n", a.out,
      s.architecture.empty() ? "" : s.architecture + ", ", s.tensors,
      static_cast<double>(s.bytes) * 1e-6, name_of(s.type), counted(s.files, "file"));
  return 0;
}

}  // namespace

void add_export(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("export", "a trained model as files of other programs");
  auto a = std::make_shared<ExportArguments>();
  command->add_option("checkpoint", a->checkpoint, "a checkpoint or run directory")
      ->required()
      ->transform(with_environment());
  command->add_option("out", a->out, "the folder or file to write, which must not exist")
      ->required()
      ->transform(with_environment());
  command
      ->add_option("--format", a->format,
                   "safetensors: a folder for Hugging Face's transformers; hdf5: one file")
      ->check(CLI::IsMember({"safetensors", "hdf5"}))
      ->capture_default_str();
  command->add_option("--dtype", a->type, "type of the elements (default: the checkpoint's)")
      ->check(CLI::IsMember({"f32", "bf16", "f64"}));
  command->add_option("--shard-size", a->shard_size,
                      "largest file of weights, such as 500M (default: 5 GB)");
  command->callback([&chosen, a] { chosen = [a] { return export_checkpoint(*a); }; });
}

}  // namespace trireme
