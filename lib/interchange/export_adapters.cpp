// Adapters in peft's format. Each product has lora_A [R, in] and lora_B [out, R] as f32, named
// after the module of transformers that they adapt.
#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/export.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_tensors.hpp"
#include "lib/interchange/safetensors.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

std::vector<double> rows_of(const std::vector<double>& all, const AdapterTensor& p) {
  std::vector<double> rows(static_cast<std::size_t>(p.rows * p.columns));
  for (std::int64_t row = 0; row < p.rows; ++row)
    std::copy_n(all.begin() + (p.begin + row) * p.columns, p.columns,
                rows.begin() + p.row_in_tensor(row) * p.columns);
  return rows;
}

// Returns the last word of each module if these words select exactly these modules. Otherwise
// returns the modules. All blocks have the same modules.
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

// Returns true if the adapted weight is stored as [in, out].
bool is_transposed(const AdapterTensor& t) {
  return t.weight.storage == TensorStorage::columns;
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

  const auto parts = adapter_tensors(spec);
  std::vector<std::string> modules;
  for (std::size_t i = 0; i < parts.size(); i += 2) modules.push_back(parts[i].module);
  std::vector<SafeTensor> entries;
  for (const auto& p : parts)
    entries.push_back({p.name, "F32", {p.rows, p.columns}, 0, p.rows * p.columns * 4});

  Draft draft(folder);
  make_directory(draft.path());
  SafetensorsWriter file(draft.path() / "adapter_model.safetensors", entries);
  for (const auto& p : parts) {
    const auto values = rows_of(read_doubles(reader, spec.params[p.param.index()]), p);
    std::vector<std::byte> narrow(values.size() * bytes_of(summary.type));
    write_elements(DType::f64, std::as_bytes(std::span(values)), summary.type, narrow, p.name);
    file.append(narrow);
    summary.bytes += std::ssize(narrow);
  }
  file.finish();
  const Json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base},
                       {"r", a.rank},
                       {"lora_alpha", alpha_of(a)},
                       {"lora_dropout", a.dropout},
                       {"use_rslora", a.rank_stabilized},
                       {"target_modules", target_modules(modules, tensors)},
                       {"bias", "none"},
                       {"fan_in_fan_out", std::ranges::any_of(parts, is_transposed)},
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
