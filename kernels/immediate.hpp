#pragma once
// Base class of backends that run every operation immediately, in host memory. The class implements
// memory over reserved addresses, queues whose work is always finished, uploads and downloads.
// Derived classes implement the kernels.

#include <array>

#include "kernels/address_range.hpp"
#include "kernels/arena.hpp"
#include "kernels/backend.hpp"
#include "kernels/guarded_memory.hpp"

namespace trireme {

enum class Poison : std::uint8_t { off, on };

// Returns the machine's memory in bytes, or the control group limit if that is smaller. Backends
// reserve no more memory than this.
std::size_t physical_memory();

// Backend that runs each operation during put(), in host memory.
class Immediate : public Backend {
 public:
  static constexpr std::size_t workspace_size = std::size_t{16} << 20;

  // Poison::on fills each freed block with a NaN bit pattern.
  explicit Immediate(BackendProperties, Poison = Poison::off, Guards = Guards::off);

  const BackendProperties& properties() const final { return properties_; }
  Block take(std::size_t bytes, MemoryKind, Queue first, Memory) override;
  void give(const Block&, std::span<const Event> last) noexcept override;
  const Account& account() const override { return arena_.account(); }
  void lend_workspace(View v) override { scratch_ = v; }

  Event record(Queue q) override { return {q, 0}; }
  void wait(Queue, Event) override {}
  bool done(Event) override { return true; }
  void* native(Queue) override { return nullptr; }

  void upload(Queue, View dst, std::span<const std::byte>) override;
  void download(Queue, std::span<std::byte>, ConstView src) override;

 protected:
  View scratch() const { return scratch_; }

 private:
  AddressRange& range(Memory m) { return ranges_[static_cast<std::size_t>(m)]; }

  BackendProperties properties_;
  Poison poison_;
  Guards guards_;
  std::size_t capacity_;
  std::array<AddressRange, 2> ranges_;  // index: Memory
  Arena arena_;
  GuardedMemory guarded_;  // with guards, provides the memory; the arena then only counts
  View scratch_;
};

}  // namespace trireme
