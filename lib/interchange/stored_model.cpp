#include "lib/interchange/stored_model.hpp"

#include <utility>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme {

ModelSpec spec_of(const CheckpointReader& reader, const ModelConfig& model) {
  auto spec = make_spec(model);
  std::vector<std::pair<std::string, Shape>> params;
  for (const auto& p : spec.params) params.emplace_back(p.name, p.shape);
  reader.require_model(params);
  return spec;
}

DType stored_dtype(const CheckpointReader& reader) {
  const auto& params = reader.params();
  require(!params.empty(), "{} holds no parameters", reader.directory().string());
  for (const auto& p : params)
    require(p.dtype == params[0].dtype, "{} holds {} in {} and {} in {}",
            reader.directory().string(), params[0].name, name_of(params[0].dtype), p.name,
            name_of(p.dtype));
  return params[0].dtype;
}

}  // namespace trireme
