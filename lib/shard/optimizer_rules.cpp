#include "lib/shard/optimizer_rules.hpp"

#include <algorithm>

#include "lib/base/array_names.hpp"

namespace trireme {

template <class Names>
static void append(std::vector<std::string>& all, const Names& names) {
  for (const auto name : names)
    if (std::ranges::find(all, name) == all.end()) all.emplace_back(name);
}

static SquareSlots square_slots(const SquareArray& array, const MatrixOptimizer& optimizer,
                                const ModelSpec& spec, const Segment& segment, std::int64_t ranks) {
  SquareSlots all{array, {}, 0};
  for (const auto& slot : segment.slots) {
    if (slot.begin < segment.matrices_begin) continue;
    std::int64_t count = 0;
    for (const auto& matrix : matrices_of(spec, slot.param, optimizer.heads))
      count += count_of(array, matrix);
    all.slots.push_back({slot.param, all.elements, count});
    all.elements = padded(all.elements + count, Layout::alignment);
  }
  all.elements = padded(all.elements, ranks * Layout::alignment);
  return all;
}

const Slot* SquareSlots::slot_of(ParamId p) const {
  const auto found = std::ranges::find(slots, p, &Slot::param);
  return found == slots.end() ? nullptr : &*found;
}

StateArrays state_arrays(const OptimizerRules& rules, const ModelSpec& spec, const Segment& segment,
                         std::int64_t ranks) {
  StateArrays arrays;
  const auto add = [&](std::string_view name, Range elements) {
    if (elements.count() > 0) arrays.elementwise.push_back({std::string(name), elements});
  };
  for (const auto name : arrays_of(rules.elements)) add(name, segment.others());
  if (segment.matrices().count() > 0) {
    for (const auto name : elementwise_arrays(rules.matrices->rule)) add(name, segment.matrices());
    for (const auto& array : squares_of(rules.matrices->rule))
      arrays.squares.push_back(square_slots(array, *rules.matrices, spec, segment, ranks));
  }
  if (rules.average_decay > 0) add(average_array, {0, segment.elements});
  return arrays;
}

std::vector<std::string> all_arrays(const OptimizerRules& rules) {
  std::vector<std::string> all;
  append(all, arrays_of(rules.elements));
  if (rules.matrices) {
    append(all, elementwise_arrays(rules.matrices->rule));
    for (const auto& array : squares_of(rules.matrices->rule)) all.emplace_back(array.name);
  }
  if (rules.average_decay > 0) all.emplace_back(average_array);
  return all;
}

}  // namespace trireme
