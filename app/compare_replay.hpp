#pragma once
// The steps of one side made again on one rank, held against what it recorded of them.
#include <optional>

#include "app/compare_side.hpp"
#include "lib/compare/report.hpp"

namespace trireme {

struct Replayed {
  TensorValues values;  // of the last step: gradients, weights, the optimizer's arrays
  bool faulty = false;  // others than recorded, where they had to be the same
};

// From the nearest checkpoint, or the beginning, to `step`, at most `most` steps. Says in the
// report what became of it: none when it could not be done.
std::optional<Replayed> replay(const Side&, std::int64_t step, std::int64_t most,
                               const ModelPlaces&, Report&);

}  // namespace trireme
