// Adapters in peft's format. Each product has lora_A [R, in], lora_B [out, R] and, with DoRA,
// lora_magnitude_vector [out]. Parameters of adapter.also_train keep their shapes. All tensors are
// f32 and named after their module of transformers.
#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/version.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/chat_files.hpp"
#include "lib/interchange/export.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_tensors.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/interchange/tokenizer_files.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Returns the elements of a tensor, given those of its parameter.
std::vector<double> rows_of(const std::vector<double>& all, const AdapterTensor& p) {
  const auto width = p.width();
  std::vector<double> rows(static_cast<std::size_t>(p.rows * width));
  if (p.transposed) {
    for (std::int64_t row = 0; row < p.rows; ++row)
      for (std::int64_t column = 0; column < width; ++column)
        rows[static_cast<std::size_t>(column * p.rows + row)] =
            all[static_cast<std::size_t>((p.begin + row) * width + column)];
    return rows;
  }
  for (std::int64_t row = 0; row < p.rows; ++row)
    std::copy_n(all.begin() + (p.begin + row) * width, width,
                rows.begin() + p.row_in_tensor(row) * width);
  return rows;
}

// Subtracts HfTensor::plus, such as the 1 in Gemma's norms, from an also-trained parameter. Adapter
// tensors have no offset.
void subtract_offset(std::vector<double>& x, const AdapterTensor& p, const ModelSpec& spec) {
  if (is_of_adapter(spec.params[p.param.index()])) return;
  for (auto& value : x) value -= p.weight.plus;
}

// Returns the last word of each module if these words select exactly these modules. Otherwise
// returns the modules. All blocks have the same modules.
std::vector<std::string> target_modules(const std::vector<std::string>& modules,
                                        const std::vector<HfTensor>& tensors) {
  std::set<std::string> words;
  for (const auto& m : modules) words.insert(m.substr(m.rfind('.') + 1));
  std::size_t meant = 0;
  for (const auto& t : tensors) {
    const auto module = module_of(t.name);
    meant += t.name.ends_with(".weight") && words.contains(module.substr(module.rfind('.') + 1));
  }
  if (meant == modules.size()) return {words.begin(), words.end()};
  return modules;
}

// Returns true if the adapted weight is stored as [in, out].
bool is_transposed(const AdapterTensor& t) {
  return t.weight.storage == TensorStorage::columns;
}

// Throws Error if a trained norm is 0, by which peft would divide 0.
void require_norms(const std::vector<double>& values, const AdapterTensor& p,
                   const ModelSpec& spec) {
  if (spec.params[p.param.index()].role != ParamRole::adapter_norms) return;
  require(std::ranges::find(values, 0.0) == values.end(),
          "the adapter of {} has a norm of 0, because a row of the base weight is 0. peft computes "
          "NaN from it. Export the merged model instead",
          p.product);
}

// Warns of adapters that peft 0.21 leaves out with transformers 5. transformers 5 stores the
// experts of a layer in one tensor. For Qwen2-MoE, peft does not convert adapters of experts. For
// other architectures, peft leaves out the MLP adapters in blocks without experts.
void warn_of_experts(const ModelSpec& spec, const std::string& architecture) {
  bool of_experts = false, of_dense_blocks = false;
  for (const auto& a : spec.adapters)
    of_experts = of_experts || spec.params[a.weight.index()].expert >= 0;
  for (const auto& b : spec.blocks)
    for (const auto w : {b.ffn_in, b.ffn_out})
      of_dense_blocks = of_dense_blocks || (w != ParamId{} && spec.adapter_of(w));
  const bool converts = architecture != "Qwen2MoeForCausalLM";
  if (spec.config.experts == 0 || !(converts ? of_dense_blocks : of_experts)) return;
  log_warning(
      "PEFT 0.21 with transformers 5 leaves out the adapters of {} of {} and does not report it. "
      "To use them in Python, export the merged model",
      converts ? "the blocks without experts" : "the experts", architecture);
}

// Returns the description of the adapters, whose first lines the hub of Hugging Face reads. `loads`
// is the model into which they are loaded.
std::string model_card(const std::string& base, const std::string& loads, const AdapterConfig& a) {
  const auto* const method = a.method == AdapterMethod::dora ? "DoRA" : "LoRA";
  return fmt::format(
      "---\nbase_model: {0}\nlibrary_name: peft\ntags:\n- lora\n---\n\n# Adapters of {0}\n\n{6} "
      "adapters of rank {1} (alpha {2}), trained with Trireme {3}. Load them "
      "with\n\n```python\nfrom "
      "peft import PeftModel\nfrom transformers import AutoModelForCausalLM, "
      "AutoTokenizer\n\nmodel = "
      "PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained({4:?}), "
      "\"FOLDER\")\ntokenizer "
      "= AutoTokenizer.from_pretrained(\"FOLDER\")\n```\n\nwhere FOLDER is the folder of this "
      "file{5}.\n",
      base, a.rank, alpha_of(a), version(), loads,
      loads == base ? ""
                    : " and EXPORTED the folder that `trireme export` writes for the base model",
      method);
}

}  // namespace

ExportSummary export_adapters(CheckpointReader& reader, const ModelConfig& model,
                              const AdapterConfig& a, const std::string& base,
                              const fs::path& folder) {
  const auto spec = make_spec(model, a);
  const auto tensors = hf_tensors(make_spec(model));
  ExportSummary summary;
  summary.architecture = family_of(model).architecture;
  summary.type = ElementType::f32;

  warn_of_experts(spec, summary.architecture);
  auto parts = adapter_tensors(spec);
  std::vector<std::string> modules;
  for (const auto& p : parts)
    if (modules.empty() || modules.back() != p.module) modules.push_back(p.module);
  const auto also_trained = also_trained_tensors(spec);
  std::set<std::string> whole;
  for (const auto& p : also_trained) whole.insert(p.module);
  parts.insert(parts.end(), also_trained.begin(), also_trained.end());
  std::vector<SafeTensor> entries;
  for (const auto& p : parts)
    entries.push_back({p.name, "F32", p.shape(), 0, p.rows * p.width() * 4});

  Draft draft(folder);
  make_directory(draft.path());
  SafetensorsWriter file(draft.path() / "adapter_model.safetensors", entries,
                         {{base_hash_key, reader.meta().extra.base}});
  for (const auto& p : parts) {
    auto values = rows_of(read_doubles(reader, spec.params[p.param.index()]), p);
    subtract_offset(values, p, spec);
    require_norms(values, p, spec);
    std::vector<std::byte> narrow(values.size() * bytes_of(summary.type));
    write_elements(DType::f64, std::as_bytes(std::span(values)), summary.type, narrow, p.name);
    file.append(narrow);
    summary.bytes += std::ssize(narrow);
  }
  file.finish();
  // Full names of modules match only themselves.
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& p : parts) {
    if (!is_of_adapter(spec.params[p.param.index()])) continue;
    const auto s = rank_and_scale_of(a, p.product);
    if (s.rank != a.rank) ranks[p.module] = s.rank;
    if (s.alpha != alpha_of(a)) alphas[p.module] = s.alpha;
  }
  const Json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base},
                       {"r", a.rank},
                       {"lora_alpha", alpha_of(a)},
                       {"rank_pattern", ranks},
                       {"alpha_pattern", alphas},
                       {"lora_dropout", a.dropout},
                       {"use_rslora", a.rank_stabilized},
                       {"use_dora", a.method == AdapterMethod::dora},
                       {"target_modules", target_modules(modules, tensors)},
                       {"bias", "none"},
                       {"fan_in_fan_out", std::ranges::any_of(parts, is_transposed)},
                       {"inference_mode", true},
                       {"modules_to_save", whole.empty() ? Json() : Json(whole)}};
  write_new(draft.path() / "adapter_config.json", to_lines(config));
  const auto& meta = reader.meta();
  const TokenizerSpec tokenizer{kind_named(meta.tokenizer_kind), meta.tokenizer,
                                meta.chat_template};
  const auto where = reader.directory().string();
  const auto theirs = kept_architecture(meta.extra.imported);
  const bool same = theirs.empty() || theirs == summary.architecture;
  const auto loads = same ? base : "EXPORTED";
  if (!same)
    log_warning(
        "the adapters have the module names of {}, but the base model is a {}. Load them into the "
        "folder that `trireme export` writes for the base model, not into {}: peft would leave out "
        "most of them without a message",
        summary.architecture, theirs, base);
  auto files = files_of(tokenizer, where);
  add_chat_template(files, tokenizer, where);
  // The base model has the generation settings.
  files.contents.erase("generation_config.json");
  for (const auto& [name, text] : files.contents) write_new(draft.path() / name, text);
  write_new(draft.path() / "README.md", model_card(base, loads, a));
  sync_directory(draft.path());
  draft.publish();
  summary.tensors = parts.size();
  summary.files = 1;
  return summary;
}

}  // namespace trireme
