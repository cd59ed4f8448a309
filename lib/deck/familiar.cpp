#include "lib/deck/familiar.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/deck/familiar_tables.hpp"

namespace trireme {
namespace {

constexpr std::array values = {
    FamiliarValue{"float32", "f32"},
    FamiliarValue{"fp32", "f32"},
    FamiliarValue{"bfloat16", "bf16"},
    FamiliarValue{"float64", "f64"},
    FamiliarValue{"double", "f64"},
    FamiliarValue{"layernorm", "layer"},
    FamiliarValue{"rmsnorm", "rms"},
    FamiliarValue{"silu", "swiglu"},
    FamiliarValue{"rope", "rotary"},
    FamiliarValue{"gelu_new", "gelu"},
    FamiliarValue{"cpu", "host"},
    FamiliarValue{"gpu", "cuda"},
    FamiliarValue{"qlora", "nf4"},
    FamiliarValue{"dist_muon", "muon"},
    FamiliarValue{"distributed_shampoo", "shampoo"},
    FamiliarValue{"original", "sqrt(max(1, out/in))"},
    FamiliarValue{"shape_scaling", "sqrt(max(1, out/in))"},
    FamiliarValue{"match_rms_adamw", "0.2 sqrt(max(out, in))"},
    FamiliarValue{"unit_rms_norm", "sqrt(out/in)"},
    FamiliarValue{"spectral", "0.2 sqrt(max(out, in))"},
    FamiliarValue{"polar_express", "polar-express"},
    FamiliarValue{"simple", "jordan"},
};

}  // namespace

std::span<const FamiliarName> familiar_names() {
  static const auto all = [] {
    std::vector<FamiliarName> names;
    for (const auto part :
         {familiar_names_of_models(), familiar_names_of_training(), familiar_names_of_jobs()})
      names.insert(names.end(), part.begin(), part.end());
    return names;
  }();
  return all;
}

std::span<const FamiliarValue> familiar_values() {
  return values;
}

const FamiliarName* find_familiar(std::string_view name) {
  std::string plain(name);
  for (char& c : plain) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  const std::string_view path = plain;
  const auto names = familiar_names();
  const auto last = path.substr(path.rfind('.') + 1);  // npos + 1 is 0
  const auto whole = std::ranges::find(names, last, &FamiliarName::name);
  if (whole != names.end()) return &*whole;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = path.find_first_of("._", begin);
    const auto word = path.substr(begin, end - begin);
    const auto found = std::ranges::find_if(
        names, [&](const FamiliarName& f) { return f.key.empty() && f.name == word; });
    if (found != names.end()) return &*found;
  }
  return nullptr;
}

FamiliarChoice familiar_choice(std::string_view text) {
  const auto value = std::ranges::find(values, text, &FamiliarValue::value);
  const auto* const row = find_familiar(text);
  return {.ours = value == values.end() ? std::string_view() : value->ours,
          .unsupported = row && row->unsupported()};
}

std::string hint_of(const FamiliarName& f) {
  return f.says.empty() ? fmt::format("{} is {} here", f.name, f.key)
                        : fmt::format("{} {}", f.name, f.says);
}

}  // namespace trireme
