#pragma once
// What a training takes and sends, held against what its plan said: to the byte.
#include "kernels/open/open.hpp"
#include "lib/plan/plan.hpp"
#include "tests/parallel/parity.hpp"

namespace trireme::test {

// Plans this rank's share of a case before its training runs.
class Counted {
 public:
  Counted(const ParityCase&, const BackendChoice&, const Axes&);

  // After every step: the payload that it sent.
  void step_sent(const Axes&);
  // After the last step: what is and was taken.
  void taken(const Account&) const;

 private:
  RankPlan plan_;
  Axes::Traffic sent_;
  bool experts_travel_, keeps_rounds_;  // until their weight gradients: of more than a plan has
};

}  // namespace trireme::test
