#include "lib/base/error.hpp"
#include "lib/predict/simulate.hpp"

namespace trireme {

Simulated simulate_device(const Machine&, std::span<const Recording>) {
  fail("steps on devices are not predicted yet");
}

}  // namespace trireme
