#pragma once
// Stage: runs the parts of a model for one microbatch forward, and later backward, with what is
// kept between. It knows no ranks and no messages; weights come from a Session.
#include <map>
#include <vector>

#include "lib/model/model.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// A microbatch on the device.
struct Microbatch {
  Tensor ids_BT, targets_BT;  // i32
  Tensor sample_B;            // i64
};

class Stage {
 public:
  Stage(const Model&, const Session&, Backend&, const Communicator& world, Recompute);

  // What comes with every call beside the microbatch itself.
  struct When {
    Phase phase = Phase::train;
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    double scale = 1;  // 1 / valid targets of the whole step
  };
  // The loss (f64, a sum over valid targets); everything backward needs is kept under `m`.
  Tensor forward(int m, const Microbatch&, const When&);
  void backward(int m, const Microbatch&, const When&);
  // The loss, with nothing kept.
  Tensor evaluate(const Microbatch&);
  // Logits [1, V] that follow position `t` of sample 0; targets are not read.
  Tensor logits(const Microbatch&, std::int64_t t);

 private:
  struct Kept {
    Tensor input;  // present: run forward again first
    Tape tape;
    std::int32_t leaf = -1, root = -1;
  };
  Run run_of(const Microbatch&, const When&, int m, const Weights&, Gradients*) const;
  Tensor hidden(const Microbatch&, std::size_t parts);

  const Model& model_;
  const Session& session_;
  Backend& backend_;
  const Communicator& world_;
  Recompute recompute_;
  std::map<int, std::vector<Kept>> kept_;
};

}  // namespace trireme
