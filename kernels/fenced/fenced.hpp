#pragma once
// A backend that detects mistakes in GPU code on machines without a GPU. It computes with the host
// backend, but behaves like a GPU in two ways. First, memory is mapped twice. Callers get addresses
// in an inaccessible mapping, so that host code that accesses "device" memory faults. Kernels use
// the other mapping. Second, each queue runs as late as events and downloads allow, so that a
// missing wait gives wrong numbers. Blocks are filled with NaNs when they are taken.
#include <array>
#include <deque>
#include <functional>

#include "kernels/host/host.hpp"

namespace trireme {

// Host backend with inaccessible device memory and deferred queues.
class Fenced final : public Backend {
 public:
  explicit Fenced(int threads);
  ~Fenced() override;

  const BackendProperties& properties() const override { return properties_; }
  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape& s, DType t, Direction d) const override {
    return host_.attention_bytes(s, t, d);
  }
  Block take(std::size_t bytes, MemoryKind, Queue first, Memory) override;
  void give(const Block&, std::span<const Event> last) noexcept override;
  const Account& account() const override { return arena_.account(); }
  void lend_workspace(View v) override { host_.lend_workspace(inside(v)); }
  Event record(Queue) override;
  void wait(Queue, Event) override;
  bool done(Event) override;
  void* native(Queue) override { return nullptr; }
  void upload(Queue, View dst, std::span<const std::byte>) override;
  void download(Queue, std::span<std::byte>, ConstView src) override;

 private:
  // Deferred work of one queue, with the number of items put on the queue and done so far.
  struct Line {
    std::deque<std::function<void()>> waiting;
    std::uint64_t put = 0, done = 0;
  };
  Line& line(Queue q) { return lines_[static_cast<std::size_t>(q)]; }
  void defer(Queue, std::function<void()>);
  // Runs the work of the event's queue until the event has passed.
  void run_to(Event);
  // Converts a view to the same memory in the accessible mapping.
  template <class AnyView>
  AnyView inside(AnyView) const;

  Host host_;
  BackendProperties properties_;
  std::size_t capacity_;
  std::byte *fence_, *memory_;  // two mappings of one file; pinned blocks are in the upper half
  Arena arena_;
  std::array<Line, queue_count> lines_;
};

}  // namespace trireme
