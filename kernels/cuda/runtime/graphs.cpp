#include "kernels/cuda/runtime/graphs.hpp"

#include <utility>

namespace trireme::cuda {

Graphs::~Graphs() {
  for (const auto& [which, kind] : kinds_)
    if (kind.graph) runtime_.destroy_graph(kind.graph);
}

void Graphs::begin(std::uint64_t which) {
  expect(!recording_, "one graph at a time");
  auto& kind = kinds_[which];
  if (kind.times++ < as_they_are) return;
  queues_.begin_recording();
  recording_ = &kind;
}

void Graphs::end() {
  if (!recording_) return;
  auto& kind = *std::exchange(recording_, nullptr);
  try {
    auto* const graph = queues_.end_recording(kind.graph);
    if (kind.graph && graph != kind.graph) runtime_.destroy_graph(kind.graph);
    kind.graph = graph;
    queues_.launch(graph);
  } catch (...) {
    queues_.drop_recording();
    throw;
  }
}

void Graphs::drop() noexcept {
  if (std::exchange(recording_, nullptr)) queues_.drop_recording();
}

}  // namespace trireme::cuda
