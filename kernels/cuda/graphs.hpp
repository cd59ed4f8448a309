#pragma once
// Pieces of compute's work as CUDA graphs. The host puts them there launch by launch all the same,
// since addresses and seeds change; what is saved are the gaps between kernels that are shorter
// than a launch.
#include <map>
#include <vector>

#include "kernels/cuda/queues.hpp"

namespace trireme::cuda {

class Graphs {
 public:
  Graphs(Runtime& runtime, Queues& queues) : runtime_(runtime), queues_(queues) {}
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // The first two of a kind run as they are: what libraries measure or make at first use cannot be
  // recorded, and a step's first microbatch overwrites sums where the next one adds.
  static constexpr int as_they_are = 2;

  void begin(int which);
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
  std::map<int, Kind> kinds_;
  Kind* recording_ = nullptr;
  std::vector<Runtime::Graph> replaced_;  // may still run
};

}  // namespace trireme::cuda
