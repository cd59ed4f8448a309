#pragma once
// Runs of work on compute as CUDA graphs. The host still puts them there launch by launch, since
// addresses and seeds change; what is saved are the gaps between kernels that are shorter than a
// launch.
#include <cstdint>
#include <map>

#include "kernels/cuda/runtime/queues.hpp"

namespace trireme::cuda {

class Graphs {
 public:
  Graphs(Runtime& runtime, Queues& queues) : runtime_(runtime), queues_(queues) {}
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // The first two of a kind run without a graph: libraries measure or allocate at first use.
  static constexpr int as_they_are = 2;

  void begin(std::uint64_t which);
  void end();
  void drop() noexcept;
  bool recording() const { return recording_ != nullptr; }

 private:
  struct Kind {
    int times = 0;
    Runtime::Graph graph = nullptr;
  };

  Runtime& runtime_;
  Queues& queues_;
  std::map<std::uint64_t, Kind> kinds_;
  Kind* recording_ = nullptr;
};

}  // namespace trireme::cuda
