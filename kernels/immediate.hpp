#pragma once
// What backends share that run every operation at once, in host memory: memory over reserved
// addresses, queues that are always finished, upload and download. Kernels stay abstract.

#include <array>

#include "kernels/address_range.hpp"
#include "kernels/arena.hpp"
#include "kernels/backend.hpp"
#include "kernels/guarded_memory.hpp"

namespace trireme {

enum class Poison : std::uint8_t { off, on };

// This machine's memory in bytes, as far as control groups leave it: what may be reserved.
std::size_t physical_memory();

class Immediate : public Backend {
 public:
  static constexpr std::size_t workspace_size = std::size_t{16} << 20;

  // Poison fills blocks with NaN patterns as they are given back.
  explicit Immediate(BackendProperties, Poison = Poison::off, Guards = Guards::off);

  const BackendProperties& properties() const final { return properties_; }
  Block take(std::size_t bytes, Kind, Queue first, Memory) override;
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
  std::array<AddressRange, 2> ranges_;  // by Memory
  Arena arena_;
  GuardedMemory guarded_;  // where guards are on: the arena then counts alone
  View scratch_;
};

}  // namespace trireme
