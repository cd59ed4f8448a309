// Adapters in peft's format: of each product lora_A [R, in] and lora_B [out, R], as f32, named by
// the module of transformers that they stand beside.
#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/interchange/export.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_names.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/io/draft.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Rows [begin, end) of a parameter.
struct Part {
  std::string name;  // in the file
  ParamId param;
  std::int64_t begin, rows, columns;
};

// The module with the weight's channels from `channel` on, "model.layers.0.self_attn.q_proj".
std::string module_of(const std::vector<HfTensor>& tensors, const ParamSpec& weight,
                      std::int64_t channel) {
  for (const auto& t : tensors)
    if (t.param == weight.name && t.begin == channel * weight.shape[1])
      return t.name.substr(0, t.name.rfind(".weight"));
  fail("no module of transformers has the channels of {} from {} on", weight.name, channel);
}

std::vector<double> rows_of(const std::vector<double>& all, const Part& p) {
  const auto at = all.begin() + p.begin * p.columns;
  return {at, at + p.rows * p.columns};
}

// The last word of each module where that says which they are: all blocks have the same ones.
std::vector<std::string> target_modules(const std::vector<std::string>& modules,
                                        const std::vector<HfTensor>& tensors) {
  std::set<std::string> words;
  for (const auto& m : modules) words.insert(m.substr(m.rfind('.') + 1));
  std::size_t meant = 0;
  for (const auto& t : tensors) {
    const auto module = t.name.substr(0, t.name.rfind(".weight"));
    meant += t.name.ends_with(".weight") && words.contains(module.substr(module.rfind('.') + 1));
  }
  if (meant == modules.size()) return {words.begin(), words.end()};
  return modules;
}

}  // namespace

ExportSummary export_adapters(CheckpointReader& reader, const ModelConfig& model,
                              const std::string& base, const fs::path& folder) {
  const auto spec = make_spec(model);
  const auto base_spec = make_spec(without_adapters(model));
  const auto tensors = hf_tensors(base_spec);
  ExportSummary summary;
  summary.architecture = architecture_of(base_spec.config);
  summary.type = ElementType::f32;

  std::vector<Part> parts;
  std::vector<std::string> modules;
  for (const auto& adapter : spec.adapters) {
    const auto& weight = spec.params[adapter.weight.index()];
    for (std::size_t i = 0; i < adapter.products.size(); ++i) {
      const auto& p = adapter.products[i];
      modules.push_back(module_of(tensors, weight, p.channel));
      const auto name = "base_model.model." + modules.back();
      parts.push_back({name + ".lora_A.weight", adapter.a,
                       static_cast<std::int64_t>(i) * adapter.rank, adapter.rank, weight.shape[1]});
      parts.push_back({name + ".lora_B.weight", adapter.b, p.row, p.channels, adapter.rank});
    }
  }
  std::vector<SafeTensor> entries;
  for (const auto& p : parts)
    entries.push_back({p.name, "F32", {p.rows, p.columns}, 0, p.rows * p.columns * 4});

  Draft draft(folder);
  make_directory(draft.path());
  SafetensorsWriter file(draft.path() / "adapter_model.safetensors", entries);
  for (const auto& p : parts) {
    const auto values = rows_of(read_doubles(reader, spec.params[p.param.index()]), p);
    const std::vector<float> narrow(values.begin(), values.end());
    file.append(std::as_bytes(std::span(narrow)));
    summary.bytes += static_cast<std::int64_t>(narrow.size() * sizeof(float));
  }
  file.finish();
  const auto& a = model.adapter;
  const double alpha = a.alpha > 0 ? a.alpha : 2 * static_cast<double>(a.rank);
  const Json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base},
                       {"r", a.rank},
                       {"lora_alpha", alpha},
                       {"lora_dropout", a.dropout},
                       {"use_rslora", a.rank_stabilized},
                       {"target_modules", target_modules(modules, tensors)},
                       {"bias", "none"},
                       {"fan_in_fan_out", model.positions == Positions::learned},
                       {"inference_mode", true},
                       {"modules_to_save", nullptr}};
  write_new(draft.path() / "adapter_config.json", to_lines(config));
  sync_directory(draft.path());
  draft.publish();
  summary.tensors = parts.size();
  summary.files = 1;
  return summary;
}

}  // namespace trireme
