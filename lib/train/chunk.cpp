#include "lib/train/chunk.hpp"

#include <algorithm>

namespace trireme {

PartRange stage_parts(std::span<const std::int64_t> blocks, std::size_t stage) {
  std::size_t begin = 1;  // after the embedding
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

// Returns flags by UnitId: 1 if any parameter of the unit is trained.
static std::vector<std::uint8_t> trained_units(const ModelSpec& spec,
                                               std::span<const std::uint8_t> trainable) {
  std::vector<std::uint8_t> trained(spec.units.size(), 0);
  for (std::size_t i = 0; i < spec.params.size(); ++i)
    if (trainable[i]) trained[spec.params[i].unit.index()] = 1;
  return trained;
}

BackwardParts backward_parts(const Model& model, PartRange range,
                             std::span<const std::uint8_t> trainable, bool input_wanted) {
  BackwardParts b{{}, {}, input_wanted};
  const auto trained = trained_units(model.spec(), trainable);
  bool flows = input_wanted;
  for (const auto& part : parts_of(model, range)) {
    b.trains.push_back(std::ranges::any_of(
        part->units(), [&](const Borrow& use) { return trained[use.unit.index()] != 0; }));
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
