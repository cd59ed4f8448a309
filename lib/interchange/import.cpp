#include "lib/interchange/import.hpp"

#include <algorithm>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/base/hub.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/version.hpp"
#include "lib/deck/deck.hpp"
#include "lib/interchange/family.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_folder.hpp"
#include "lib/interchange/tokenizer_files.hpp"
#include "lib/io/checkpoint_save.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Returns a bound of the number of layers and experts in the folder. A tensor with three dimensions
// contains the experts of a layer.
std::int64_t parts_in(const HfFolder& files) {
  std::int64_t parts = 0;
  for (const auto& [_, place] : files.places()) {
    const auto& t = *place.tensor;
    parts += t.shape.size() == 3 ? std::min(t.shape[0], t.count()) : 1;
  }
  return parts;
}

// Returns the model with the context of the options or, if there is none, of the model.
ModelDescription with_context(ModelConfig model, const ImportOptions& options,
                              const std::string& config) {
  const auto context = options.context.value_or(model.max_context);
  if (context > model.max_context) {
    require(
        model.positions == Positions::rotary,
        "{} cannot be imported: --context {} is more than the {} learned positions of the model: "
        "lower --context",
        config, context, model.max_context);
    log_warning("--context {} is more than the {} positions that {} specifies: lower --context",
                context, model.max_context, config);
    model.max_context = context;
  }
  return {.model = std::move(model), .context = context};
}

// Throws Error if config.json is impossible, before anything is built with the sizes in it.
void require_possible(const ModelDescription& described, const fs::path& folder,
                      const HfFolder& files) {
  const auto& model = described.model;
  const auto config = (folder / "config.json").string();
  try {  // checks the ranges of all values
    parse_model(dump_model(described), "model");
  } catch (const Error& problem) {
    fail("{} describes a model that is not supported: {}", config, problem.what());
  }
  const auto parts = parts_in(files);
  require(model.layers <= parts, "{} specifies {} layers, but the folder contains only {} tensors",
          config, model.layers, parts);
  const auto mixtures = model.layers - static_cast<std::int64_t>(model.dense_layers.size());
  require(model.experts * mixtures <= parts,
          "{} specifies {} experts in each of {} layers, but the folder contains only {} tensors",
          config, model.experts, mixtures, parts);
}

CheckpointMeta meta_of(const ModelDescription& described, const ModelSpec& spec,
                       TokenizerSpec tokenizer) {
  CheckpointMeta meta;
  meta.model = dump_model(described);
  meta.version = version();
  meta.run = random_id();
  meta.tokenizer_kind = name_of(tokenizer.kind);
  meta.tokenizer = std::move(tokenizer.bytes);
  meta.vocab = spec.config.vocab;
  for (const auto& p : spec.params) meta.updates[p.name] = 0;
  return meta;
}

// Returns true if the class in transformers that reads a SentencePiece model puts a begin-of-text
// token before texts.
bool begins_there(const fs::path& folder) {
  const auto path = folder / "tokenizer_config.json";
  return !is_there(path) ||
         parse_object(read_text(path), path.string()).value("add_bos_token", Json(true)) != false;
}

// Warns about a tokenizer that cannot be used or that behaves differently. The weights are useful
// without it, and exporting writes its files again.
void warn_of_tokenizer(const TokenizerSpec& t, const fs::path& folder) {
  if (t.kind == TokenizerKind::none) return;
  try {
    const auto tokenizer = make_tokenizer(t, folder.string());
    if (t.kind == TokenizerKind::sentencepiece && tokenizer->begin() && begins_there(folder))
      log_warning(
          "{} has a tokenizer.model but no tokenizer.json: transformers puts a begin-of-text token "
          "before each text, but Trireme does not. Load and save the tokenizer in Python to write "
          "a tokenizer.json, then import the folder again",
          folder.string());
  } catch (const Error& e) {
    log_warning(
        "{}. The model is imported, but to tokenize text for it, pass another tokenizer with "
        "--tokenizer",
        e.what());
  }
}

}  // namespace

ImportSummary import_folder(const fs::path& given, const fs::path& checkpoint,
                            const ImportOptions& options) {
  auto folder = fs::absolute(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  require(is_there(folder), "there is no folder {}{}", given.string(), hub_advice(given));
  const HfFolder files(folder);
  const auto path = folder / "config.json";
  const auto config = parse_object(read_text(path), path.string());
  auto described =
      with_context(model_of_config(config, path.string(), options.context), options, path.string());
  require_possible(described, folder, files);
  const auto spec = make_spec(described.model);
  HfWeights weights(files, spec, family_of(ConfigFields(config)));
  const auto master = options.master.value_or(weights.master());
  auto tokenizer = tokenizer_of(folder, config);
  warn_of_tokenizer(tokenizer, folder);
  auto meta = meta_of(described, spec, std::move(tokenizer));
  if (meta.tokenizer_kind != name_of(TokenizerKind::huggingface))
    meta.extra.generation = generation_of(folder, config);
  meta.extra.imported = kept_config(config, weights.types());
  std::vector<ParamSlice> slices;
  for (const auto& p : spec.params)
    slices.push_back({p.name, std::string(weights_array), p.shape, 0, p.shape.count(), master});
  Draft draft(checkpoint);
  make_directory(draft.path());
  const auto saved =
      save_checkpoint(draft.path(), meta, slices,
                      [&](const ParamSlice& s, std::int64_t first, std::span<std::byte> to) {
                        weights.read(s.name, first, s.dtype, to);
                      });
  draft.publish(saved);
  return {std::move(described), meta.tokenizer_kind, master,           weights.types(),
          weights.tensors(),    files.files(),       weights.skipped()};
}

}  // namespace trireme
