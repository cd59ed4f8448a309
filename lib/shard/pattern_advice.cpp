#include "lib/shard/pattern_advice.hpp"

#include <fmt/format.h>

#include "lib/base/pattern.hpp"

namespace trireme {

std::string advice_for_pattern(const ModelSpec& spec, std::string_view pattern,
                               const std::function<bool(const ParamSpec&)>& selectable) {
  const ParamSpec *first = nullptr, *weight = nullptr;
  bool embedding = false, is_module = false;
  for (const auto& p : spec.params) {
    if (!selectable(p)) continue;
    for (auto dot = p.name.rfind('.'); dot != std::string::npos && !is_module;
         dot = p.name.rfind('.', dot - 1))
      is_module = matches(pattern, std::string_view(p.name).substr(0, dot));
    embedding = embedding || p.role == ParamRole::embedding;
    if (!first) first = &p;
    // Weights that are trained are better examples than norms and frozen weights.
    if (!weight && p.name.starts_with("blocks.") && p.shape.dims() == 2 &&
        p.learns_from == LearnsFrom::gradients)
      weight = &p;
  }
  if (is_module) return fmt::format("did you mean \"{}.*\"?", pattern);
  if (spec.config.tied && pattern.find("head") != std::string_view::npos &&
      (matches(pattern, "head") || matches(pattern, "head.weight")))
    return fmt::format("the model has no head of its own, because model.tied = true{}",
                       embedding ? ": name \"embedding.*\", which is also the head" : "");
  const auto* const example = weight ? weight : first ? first : &spec.params[0];
  return fmt::format("names look like \"{}\"", example->name);
}

}  // namespace trireme
