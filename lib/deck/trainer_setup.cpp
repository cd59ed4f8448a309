#include "lib/deck/trainer_setup.hpp"

namespace trireme {

TrainerSetup trainer_setup(const Deck& d, DType compute) {
  TrainerSetup s;
  s.model = d.model;
  s.optimizer = d.optimizer;
  s.zero = d.zero;
  s.freeze = d.freeze;
  s.stage_layers = d.parallel.stage_layers;
  s.schedule = d.parallel.schedule;
  s.chunks = static_cast<int>(d.parallel.chunks);
  s.compute = compute;
  s.reduce = d.precision.reduce;
  s.attention = d.data.attention;
  s.seed = static_cast<std::uint64_t>(d.train.seed);
  s.exact_chunk = exact_chunk(d);
  s.check_memory = d.run.replay_every > 0;
  return s;
}

Grid grid_of(const Deck& d) {
  return {static_cast<int>(d.parallel.pipe), static_cast<int>(d.parallel.data),
          static_cast<int>(d.parallel.seq)};
}

}  // namespace trireme
