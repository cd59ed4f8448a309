#include "lib/train/chunk.hpp"

#include <algorithm>

namespace trireme {

PartRange stage_parts(std::span<const std::int64_t> blocks, std::size_t stage) {
  std::size_t begin = 1;  // behind the embedding
  for (std::size_t s = 0; s < stage; ++s) begin += static_cast<std::size_t>(blocks[s]);
  const auto end = begin + static_cast<std::size_t>(blocks[stage]);
  return {stage == 0 ? 0 : begin, stage + 1 == blocks.size() ? end + 2 : end};
}

std::vector<PartRange> chunk_parts(std::span<const std::int64_t> blocks, const Pipeline& pipe,
                                   int stage) {
  std::vector<PartRange> parts;
  for (int c = 0; c < pipe.chunks; ++c)
    parts.push_back(stage_parts(blocks, static_cast<std::size_t>(pipe.virtual_stage(stage, c))));
  return parts;
}

static std::span<const std::unique_ptr<Part>> parts_of(const Model& model, PartRange r) {
  return model.parts().subspan(r.begin, r.end - r.begin);
}

std::vector<UnitId> units_of(const Model& model, std::span<const PartRange> ranges) {
  std::vector<UnitId> units;
  for (const auto& range : ranges)
    for (const auto& part : parts_of(model, range))
      for (const auto& b : part->units())
        if (std::ranges::find(units, b.unit) == units.end()) units.push_back(b.unit);
  return units;
}

static bool trains_any(const ModelSpec& spec, const Part& part,
                       std::span<const std::uint8_t> trainable) {
  for (std::size_t i = 0; i < spec.params.size(); ++i)
    if (trainable[i] &&
        std::ranges::find(part.units(), spec.params[i].unit, &Borrow::unit) != part.units().end())
      return true;
  return false;
}

BackwardParts backward_parts(const Model& model, PartRange range,
                             std::span<const std::uint8_t> trainable, bool input_wanted) {
  BackwardParts b{{}, {}, input_wanted};
  bool flows = input_wanted;
  for (const auto& part : parts_of(model, range)) {
    b.trains.push_back(trains_any(model.spec(), *part, trainable));
    flows = flows || b.trains.back();
    b.needed.push_back(flows);
  }
  return b;
}

std::vector<Visit> visits(const Program& program, std::span<const Chunk> chunks) {
  std::vector<Visit> all;
  for (const auto& [what, m, chunk] : program) {
    const Chunk& c = chunks[static_cast<std::size_t>(chunk)];
    if (what == Do::forward)
      for (std::size_t i = 0; i < c.size(); ++i)
        all.push_back({c.part(i).units(), m, true, c.early(i)});
    const bool whole = what == Do::backward;
    if (whole || what == Do::input_gradients)
      for (std::size_t i = c.size(); i-- > 0 && c.needed(i);)
        all.push_back({c.part(i).units(), m, !c.read_backward(i).empty(), whole && c.late(i)});
    if (what == Do::weight_gradients)
      for (std::size_t i = c.size(); i-- > 0 && c.needed(i);)
        if (c.late(i)) all.push_back({c.part(i).units(), m, false, true});
  }
  return all;
}

}  // namespace trireme
