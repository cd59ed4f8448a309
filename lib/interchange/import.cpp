#include "lib/interchange/import.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

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
#include "lib/io/save_weights.hpp"
#include "lib/tokenizer/more_tokens.hpp"

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

// Returns the mean of the rows of an embedding or head.
std::vector<double> mean_row(HfWeights& weights, const ParamSpec& p) {
  constexpr std::int64_t most = 1 << 20;  // elements in memory
  const auto rows = p.shape[0], width = p.shape[1], batch = std::max<std::int64_t>(1, most / width);
  std::vector<double> mean(static_cast<std::size_t>(width), 0.0), some;
  for (std::int64_t row = 0; row < rows; row += batch) {
    some.resize(static_cast<std::size_t>(std::min(batch, rows - row) * width));
    weights.read(p.name, row * width, DType::f64, std::as_writable_bytes(std::span(some)));
    for (std::size_t i = 0; i < some.size(); ++i) mean[i % mean.size()] += some[i];
  }
  for (auto& x : mean) x /= static_cast<double>(rows);
  return mean;
}

// Reads parameters of a model that has more rows in its embedding and head than the files. The
// other rows are the mean of those in the files.
class MoreRows {
 public:
  MoreRows(HfWeights& weights, const ModelSpec& in_files) : weights_(weights) {
    for (const auto& p : in_files.params) in_files_.emplace(p.name, p);
  }

  void read(const std::string& param, std::int64_t first, DType type, std::span<std::byte> to) {
    const auto& p = in_files_.at(param);
    const auto size = static_cast<std::int64_t>(bytes_of(type)),
               count = static_cast<std::int64_t>(to.size()) / size,
               there = std::clamp<std::int64_t>(p.shape.count() - first, 0, count);
    const auto own = to.first(static_cast<std::size_t>(there * size));
    if (there > 0) weights_.read(param, first, type, own);
    if (there == count) return;
    auto& mean = means_[param];
    if (mean.empty()) mean = mean_row(weights_, p);
    std::vector<double> more(static_cast<std::size_t>(count - there));
    for (std::size_t i = 0; i < more.size(); ++i)
      more[i] = mean[(static_cast<std::size_t>(first + there) + i) % mean.size()];
    read_elements(ElementType::f64, std::as_bytes(std::span(more)), type, to.subspan(own.size()));
  }

 private:
  HfWeights& weights_;
  std::map<std::string, ParamSpec> in_files_;
  std::map<std::string, std::vector<double>> means_;
};

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
  const auto in_files = make_spec(described.model);
  HfWeights weights(files, in_files, family_of(ConfigFields(config)));
  const auto master = options.master.value_or(weights.master());
  auto tokenizer = tokenizer_of(folder, config);
  MoreTokens more{.spec = tokenizer, .ids = {}, .known = {}};
  if (!options.add_tokens.empty()) {
    more = with_tokens(tokenizer, options.add_tokens, folder.string());
    described.model.vocab =
        std::max<std::int64_t>(described.model.vocab, *std::ranges::max_element(more.ids) + 1);
  }
  const auto spec = make_spec(described.model);
  warn_of_tokenizer(more.spec, folder);
  auto meta = meta_of(described, spec, std::move(more.spec));
  if (meta.tokenizer_kind != name_of(TokenizerKind::huggingface))
    meta.extra.generation = generation_of(folder, config);
  meta.extra.imported = kept_config(config, weights.types());
  MoreRows rows(weights, in_files);
  save_weights(checkpoint, meta, saved_params(spec), master,
               [&](const std::string& param, std::int64_t first, std::span<std::byte> to) {
                 rows.read(param, first, master, to);
               });
  return {.described = std::move(described),
          .tokenizer = meta.tokenizer_kind,
          .master = master,
          .types = weights.types(),
          .tensors = weights.tensors(),
          .files = files.files(),
          .skipped = weights.skipped(),
          .added_ids = std::move(more.ids),
          .known_tokens = std::move(more.known),
          .added_rows = spec.config.vocab - in_files.config.vocab};
}

}  // namespace trireme
