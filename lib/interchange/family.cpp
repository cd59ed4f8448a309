#include "lib/interchange/family.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/deck/deck.hpp"
#include "lib/keys/value.hpp"

namespace trireme {

namespace {

std::vector<Family>& registry() {
  static std::vector<Family> all;
  return all;
}

// Checks that apply to all families. A family that supports one of the fields has read it.
void refuse_unsupported(const ConfigFields& f) {
  const auto refuse = [&](const char* key, const char* why) {
    f.refuse_if(!f.was_read(key) && f.find(key), key, why);
  };
  refuse("quantization_config",
         "quantized weights cannot be imported. Use the model in bf16 or f32");
  refuse("auto_map", "this model needs its own Python code, which may compute something different");
  f.refuse_if(f.flag("is_encoder_decoder", false), "is_encoder_decoder",
              "only decoder models can be imported");
  f.refuse_if(f.flag("add_cross_attention", false), "add_cross_attention",
              "cross-attention is not supported");
  for (const auto* key : {"pruned_heads", "per_layer_config"}) {
    const auto* v = f.find(key);
    f.refuse_if(v && !v->empty(), key, "blocks that differ from each other are not supported");
  }
}

// Returns true if two numbers in a deck's text differ only by the rounding of a conversion to the
// form of config.json, such as 1 / x or x^-0.5.
bool nearly_equal(const KeyChange& change) {
  double a = 0, b = 0;
  return read_number(change.before, a) && read_number(change.after, b) &&
         std::abs(a - b) <= 1e-15 * std::abs(a);
}

// Returns the differences between a model and what its config.json in this family describes.
// Returns nothing if the family cannot express the model's sizes at all.
std::optional<std::vector<KeyChange>> differences_in(const Family& family,
                                                     const ModelConfig& model) {
  try {
    const auto json = write_config(family, model);
    auto changes = model_changes(model, read_config(family, ConfigFields(json), {}));
    std::erase_if(changes, nearly_equal);
    return changes;
  } catch (const Error&) {
    return {};
  }
}

std::string text_of(const Family& family, const std::vector<KeyChange>& all) {
  std::vector<std::string> needed;
  for (const auto& d : all)
    needed.push_back(fmt::format("{} = {} instead of {}", d.key, d.after, d.before));
  return fmt::format("{} requires {}", family.architecture, fmt::join(needed, ", "));
}

}  // namespace

TensorTable joined(std::initializer_list<std::span<const TensorRow>> parts) {
  TensorTable all;
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

RegisteredFamily::RegisteredFamily(Family family) {
  auto& all = registry();
  const auto key = [](const Family& f) {
    return std::pair(f.rank.value_or(std::numeric_limits<int>::max()), f.model_type);
  };
  all.insert(std::ranges::upper_bound(all, key(family), {}, key), std::move(family));
}

const std::vector<Family>& families() {
  return registry();
}

const Family& family_of(const ConfigFields& f) {
  const auto type = f.text("model_type", "");
  const auto found = std::ranges::find(families(), type, &Family::model_type);
  std::vector<std::string_view> known;
  for (const auto& family : families()) known.push_back(family.model_type);
  std::ranges::sort(known);
  require(found != families().end(),
          "'model_type' = \"{}\" cannot be imported. The supported types are {}", escaped(type),
          fmt::join(known, ", "));
  return *found;
}

const Family& family_of(const ModelConfig& model) {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  std::vector<std::string> nearest;
  for (const auto& family : families()) {
    if (!family.rank) continue;
    const auto all = differences_in(family, model);
    if (!all || all->size() > fewest) continue;
    if (all->empty()) return family;
    if (all->size() < fewest) nearest.clear();
    fewest = all->size();
    nearest.push_back(text_of(family, *all));
  }
  fail(
      "no architecture of transformers fits this model. {}{}. Change this and train again, or "
      "export with --format hdf5, which supports every model",
      nearest.size() > 1 ? "The nearest architectures: " : "", fmt::join(nearest, "; "));
}

ModelConfig read_config(const Family& family, const ConfigFields& f,
                        std::optional<std::int64_t> context) {
  const auto type = f.text("model_type", "");
  expect(type == family.model_type, "the file is of this family");
  ModelConfig c;
  ConfigArchive archive(f, context);
  family.config(archive, c);
  refuse_unsupported(f);
  f.refuse_rest(type);
  c = completed(c);
  require(c.head_dim > 0, "the number of attention heads, {}, does not divide the width, {}",
          c.heads, c.width);
  return c;
}

Json write_config(const Family& family, ModelConfig c) {
  // Windows that have no effect are left out.
  auto plain = canonical(c);
  c.window = plain.window;
  c.window_layers = std::move(plain.window_layers);
  Json json = {{"model_type", family.model_type}};
  ConfigArchive archive(json);
  family.config(archive, c);
  return json;
}

}  // namespace trireme
