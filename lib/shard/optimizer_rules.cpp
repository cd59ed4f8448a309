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
    std::int64_t count = 0;
    for (const auto& matrix : matrices_of(spec, slot.param, optimizer.heads))
      count += count_of(array, matrix);
    all.slots.push_back({slot.param, all.elements, count});
    all.elements = padded(all.elements + count, Layout::alignment);
  }
  all.elements = padded(all.elements, ranks * Layout::alignment);
  return all;
}

StateArrays state_arrays(const OptimizerRules& rules, const ModelSpec& spec, const Segment& segment,
                         std::int64_t ranks) {
  StateArrays arrays;
  if (segment.as_matrices) {
    append(arrays.elementwise, elementwise_arrays(rules.matrices->rule));
    for (const auto& array : squares_of(rules.matrices->rule))
      arrays.squares.push_back(square_slots(array, *rules.matrices, spec, segment, ranks));
  } else {
    append(arrays.elementwise, arrays_of(rules.elements));
  }
  if (rules.average_decay > 0) arrays.elementwise.emplace_back(average_array);
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
