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

Json generation_config(const TextIds& ids) {
  Json json = Json::object();
  if (ids.begin) json["bos_token_id"] = *ids.begin;
  if (!ids.ends.empty()) json["eos_token_id"] = end_ids(ids.ends);
  if (ids.pad) json["pad_token_id"] = *ids.pad;
  return json;
}

}  // namespace trireme
