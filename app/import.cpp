// trireme import FOLDER CHECKPOINT: a model of others.
#include "lib/interchange/import.hpp"

#include <fmt/format.h>

#include <memory>

#include "app/commands.hpp"
#include "app/output.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

namespace {

struct ImportArguments {
  std::string folder, checkpoint, type;
  std::int64_t context = 0;
};

int import_model(const ImportArguments& a) {
  ImportOptions options;
  if (!a.type.empty()) options.master = a.type == "f64" ? DType::f64 : DType::f32;
  if (a.context > 0) options.context = a.context;
  const auto s = import_folder(a.folder, a.checkpoint, options);
  const auto parameters = make_spec(s.model).parameter_count();
  say("{}: {:.2f}M parameters in {}, from {} tensors of {}{}; tokenizer: {}\n", a.checkpoint,
      static_cast<double>(parameters) * 1e-6, name_of(s.master), s.tensors,
      counted(s.files, "file"),
      s.skipped == 0 ? "" : fmt::format(" ({} buffers left out)", s.skipped), s.tokenizer);
  if (const auto positions = positions_of(s.model); s.model.context < positions)
    say("samples have {} tokens (model.context), the model has {} positions (model.max_context), "
        "which an export names again\n",
        s.model.context, positions);
  return 0;
}

}  // namespace

void add_import(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("import", "a model of Hugging Face's as a checkpoint");
  auto a = std::make_shared<ImportArguments>();
  command->add_option("folder", a->folder, "with config.json and safetensors")
      ->required()
      ->transform(with_environment());
  command->add_option("checkpoint", a->checkpoint, "the checkpoint to write, which must not exist")
      ->required()
      ->transform(with_environment());
  command
      ->add_option(
          "--dtype", a->type,
          "f32, or f64 for precision.compute = \"f64\" (default: f32 unless weights are f64)")
      ->check(CLI::IsMember({"f32", "f64"}));
  command
      ->add_option("--context", a->context,
                   "tokens of a sample, where the model has more positions (default: all)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  command->callback([&chosen, a] { chosen = [a] { return import_model(*a); }; });
}

}  // namespace trireme
