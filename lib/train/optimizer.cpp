#include "lib/train/optimizer.hpp"

#include "lib/base/error.hpp"

namespace trireme {

UpdateRule update_rule(const OptimizerConfig& o) {
  switch (o.name) {
    case OptimizerKind::adamw:
      return rule::AdamW{.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps};
    case OptimizerKind::sgd:
      if (o.momentum == 0) return rule::Sgd{};
      return rule::Momentum{.momentum = o.momentum, .nesterov = o.nesterov};
    case OptimizerKind::lion:
      return rule::Lion{.beta1 = o.beta1, .beta2 = o.beta2};
  }
  fail("optimizer.name has the value {}, but no optimizer has this number",
       static_cast<int>(o.name));
}

}  // namespace trireme
