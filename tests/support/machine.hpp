#pragma once
// A machine with round numbers: each FLOP, byte and message takes a known time.
#include "lib/predict/machine.hpp"

namespace trireme::test {

inline MachineModel plain_machine(const std::string& backend) {
  MachineModel m;
  m.file = "plain.toml";
  m.name = "plain";
  m.backend = backend;
  m.ranks_of_node = 4;
  m.memory_bandwidth = 1e9;
  m.launch = 1e-7;
  m.agreement = 1e-6;
  m.near = {.latency = 1e-6, .bandwidth = 1e9};
  m.far = {.latency = 1e-5, .bandwidth = 1e8};
  for (const auto t : {DType::f32, DType::bf16}) {
    m.peak[t] = 1e9;
    m.products.push_back({.dtype = t, .m = {1}, .n = {1}, .k = {1}, .flops = {1e9}});
    for (const auto direction : {Direction::forward, Direction::backward})
      m.attention.push_back({t, direction, 4, {1}, {1e9}});
  }
  m.measured = true;
  return m;
}

}  // namespace trireme::test
