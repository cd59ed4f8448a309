#include "lib/interchange/hf_config.hpp"

#include "lib/base/error.hpp"
#include "lib/interchange/family.hpp"
#include "lib/tokenizer/hf_files.hpp"

namespace trireme {

ModelConfig model_of_config(const Json& json, std::string_view where,
                            std::optional<std::int64_t> context) {
  try {
    const ConfigFields fields(json);
    return read_config(family_of(fields), fields, context);
  } catch (const Error& e) {
    fail("{} cannot be imported: {}", where, e.what());
  }
}

static Json id_or_null(const std::optional<std::int32_t>& id) {
  return id ? Json(*id) : Json();
}

Json config_of_model(const ModelConfig& c, const TextIds& ids, ElementType type) {
  const auto& family = family_of(c);
  auto json = write_config(family, c);
  json["architectures"] = Json::array({family.architecture});
  json["initializer_range"] = 0.02;
  json["use_cache"] = true;
  json["torch_dtype"] = torch_name(type);
  json["bos_token_id"] = id_or_null(ids.begin);
  json["eos_token_id"] = end_ids(ids.ends);
  json["pad_token_id"] = id_or_null(ids.pad && *ids.pad < c.vocab ? ids.pad : std::nullopt);
  return json;
}

constexpr const char* kept_members[] = {"initializer_range", "router_aux_loss_coef",
                                        "pad_token_id"};

std::string kept_config(const Json& config, const std::set<ElementType>& types) {
  Json kept = Json::object();
  for (const auto* const key : kept_members)
    if (const auto found = config.find(key); found != config.end() && found->is_number())
      kept[key] = *found;
  if (const auto found = config.find("architectures");
      found != config.end() && found->is_array() && found->size() == 1 && found->at(0).is_string())
    kept["architecture"] = found->at(0);
  if (types.size() == 1) kept["dtype"] = name_of(*types.begin());
  return kept.dump();
}

void add_kept(Json& config, const std::string& kept) {
  if (kept.empty()) return;
  const auto members = parse_object(kept, "the config of the imported model in the checkpoint");
  for (const auto* const key : kept_members) {
    const auto found = members.find(key);
    // A tokenizer of the run's own may name another token for padding.
    const bool given = std::string_view(key) == "pad_token_id" && !config.at(key).is_null();
    if (found != members.end() && found->is_number() && !given) config[key] = *found;
  }
}

std::optional<ElementType> kept_type(const std::string& kept) {
  if (kept.empty()) return std::nullopt;
  const auto members = parse_object(kept, "the config of the imported model in the checkpoint");
  const auto name = members.value("dtype", "");
  for (const auto type : {ElementType::f32, ElementType::bf16})
    if (name == name_of(type)) return type;
  return std::nullopt;
}

std::string kept_architecture(const std::string& kept) {
  if (kept.empty()) return {};
  return parse_object(kept, "the config of the imported model in the checkpoint")
      .value("architecture", "");
}

Json generation_config(const TextIds& ids) {
  Json json = Json::object();
  if (ids.begin) json["bos_token_id"] = *ids.begin;
  if (!ids.ends.empty()) json["eos_token_id"] = end_ids(ids.ends);
  if (ids.pad) json["pad_token_id"] = *ids.pad;
  return json;
}

}  // namespace trireme
