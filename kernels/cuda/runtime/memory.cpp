#include "kernels/cuda/runtime/memory.hpp"

#include <algorithm>
#include <limits>

#include "kernels/immediate.hpp"

namespace trireme::cuda {

// Pinned memory is registered in ranges of this size. Each registration is a call to the driver.
static constexpr std::size_t pinned_page = std::size_t{8} << 20;

static std::size_t up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

static std::size_t down(std::size_t n, std::size_t to) {
  return n / to * to;
}

// Returns how much of the memory that is free now may be used.
static std::size_t usable_bytes(Runtime& runtime, std::size_t headroom) {
  const auto free = runtime.device_bytes();
  require(free > headroom,
          "the GPU has {:.2f} GiB of free memory, but run.device_headroom = {:.2f} GiB leaves all "
          "of it unused: stop other programs on this GPU, or lower run.device_headroom",
          static_cast<double>(free) * 0x1p-30, static_cast<double>(headroom) * 0x1p-30);
  return down(free - headroom, runtime.page_bytes());
}

DeviceMemory::DeviceMemory(Runtime& runtime, Queues& queues, std::size_t headroom, Guards guards)
    : runtime_(runtime),
      queues_(queues),
      device_{nullptr, usable_bytes(runtime, headroom), 0, runtime.page_bytes()},
      host_addresses_(down(physical_memory(), pinned_page)),
      host_{host_addresses_.begin(), host_addresses_.bytes(), 0, pinned_page},
      arena_(device_.reserved, host_.reserved),
      guards_(guards),
      guarded_(runtime) {
  device_.begin = runtime_.reserve(device_.reserved);
}

DeviceMemory::~DeviceMemory() {
  runtime_.release(device_.begin, device_.reserved, device_.backed);
  for (auto* p : pins_) runtime_.unpin(p);
}

void DeviceMemory::grow(Memory m, std::size_t end) {
  auto& r = range(m);
  if (end <= r.backed) return;
  const auto bytes = up(end, r.page) - r.backed;
  auto* const at = r.begin + r.backed;
  if (m == Memory::device) {
    runtime_.back(at, bytes);
  } else {
    host_addresses_.open_to(r.backed + bytes);
    runtime_.pin(at, bytes);
    pins_.push_back(at);
  }
  r.backed += bytes;
}

// Takes a guarded block. The host may access pinned memory immediately, because nothing used it
// before.
std::byte* DeviceMemory::take_guarded(std::size_t bytes, std::size_t offset, Queue first,
                                      Memory memory) {
  if (memory == Memory::device) return guarded_.take(bytes, offset, queues_.stream(first));
  auto* const data = guarded_pinned_.take(bytes, offset);
  const auto pages = guarded_pinned_.pages_of(data);
  runtime_.pin(pages.data(), pages.size());
  pins_.push_back(pages.data());
  return data;
}

std::size_t DeviceMemory::give_guarded(const Block& b, std::span<const Event> last) noexcept {
  for (const Event& e : last) try {
      queues_.synchronize(e.queue);
    } catch (const Error&) {  // a wait for the device's work reports the failure
    }
  if (b.memory == Memory::device) return guarded_.give(b, queues_.stream(Queue::compute));
  auto* const pages = guarded_pinned_.pages_of(b.data).data();
  runtime_.unpin(pages);
  std::erase(pins_, pages);
  return guarded_pinned_.give(b);
}

Block DeviceMemory::take(std::size_t bytes, MemoryKind kind, Queue first, Memory memory) {
  const auto t = arena_.take(bytes, kind, memory);
  try {
    if (guards_ == Guards::on)
      return {take_guarded(bytes, t.offset, first, memory), t.bytes, kind, memory};
    grow(memory, t.offset + t.bytes);
  } catch (const Error& e) {
    fail("{} for {} bytes of {}. Memory by kind:\n{}", e.what(), bytes, name_of(kind),
         describe(account()));
  }
  for (std::size_t q = 0; q < queue_count; ++q)
    queues_.wait(first, {static_cast<Queue>(q), t.last[q]});
  return {range(memory).begin + t.offset, t.bytes, kind, memory};
}

void DeviceMemory::give(const Block& b, std::span<const Event> last) noexcept {
  if (guards_ == Guards::on)
    return arena_.give(give_guarded(b, last), b.bytes, b.kind, b.memory, last);
  arena_.give(static_cast<std::size_t>(b.data - range(b.memory).begin), b.bytes, b.kind, b.memory,
              last);
}

std::size_t DeviceMemory::copied_whole(const std::byte* p) const {
  if (guards_ == Guards::on) {
    const auto pages = guarded_pinned_.pages_of(p);
    if (!pages.empty()) return static_cast<std::size_t>(pages.data() + pages.size() - p);
  }
  if (p < host_.begin || p >= host_.begin + host_.reserved)
    return std::numeric_limits<std::size_t>::max();
  return pinned_page - static_cast<std::size_t>(p - host_.begin) % pinned_page;
}

}  // namespace trireme::cuda
