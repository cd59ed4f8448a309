#pragma once
// A cuDNN of another version than the one that is known.

namespace trireme::simulated {

// How many times the workspace of version 9.19 its engines need, from the next plan on.
inline double& appetite() {
  static double times = 1;
  return times;
}

}  // namespace trireme::simulated
