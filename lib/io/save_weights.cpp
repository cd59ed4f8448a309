#include "lib/io/save_weights.hpp"

#include "lib/base/array_names.hpp"
#include "lib/base/draft.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/random_id.hpp"
#include "lib/base/version.hpp"
#include "lib/io/checkpoint_save.hpp"

namespace trireme {

CheckpointMeta without_run(CheckpointMeta meta) {
  meta.step = meta.samples = meta.tokens = 0;
  meta.skipped.clear();
  meta.version = version();
  meta.run = random_id();
  meta.grid = {};
  RunExtra extra;
  extra.base = std::move(meta.extra.base);
  extra.generation = std::move(meta.extra.generation);
  extra.imported = std::move(meta.extra.imported);
  meta.extra = std::move(extra);
  return meta;
}

void save_weights(const std::filesystem::path& target, CheckpointMeta meta,
                  std::span<const std::pair<std::string, Shape>> params, DType type,
                  const WeightSource& source) {
  meta.updates.clear();
  std::vector<ParamSlice> slices;
  for (const auto& [name, shape] : params) {
    meta.updates[name] = 0;
    slices.push_back({name, std::string(weights_array), shape, 0, shape.count(), type});
  }
  Draft draft(target);
  make_directory(draft.path());
  const auto saved = save_checkpoint(draft.path(), meta, slices,
                                     [&](const ParamSlice& s, std::int64_t first,
                                         std::span<std::byte> to) { source(s.name, first, to); });
  draft.publish(saved);
}

}  // namespace trireme
