#include "kernels/guarded_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace trireme {

static std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* GuardedMemory::take(std::size_t bytes, std::size_t name) {
  const auto place = guarded_place(bytes, page_bytes());
  void* const p = mmap(nullptr, place.reserved(page_bytes()), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const bool mapped = p != MAP_FAILED;
  const Mapped m{mapped ? static_cast<std::byte*>(p) + page_bytes() : nullptr, bytes, name, place};
  if (!mapped || mprotect(m.at, place.pages, PROT_READ | PROT_WRITE) != 0) {
    const auto* const why = std::strerror(errno);
    if (mapped) unmap(m);
    fail(
        "the system cannot provide {} bytes of guarded memory: {}. run.guards = true needs two "
        "mappings per block: raise /proc/sys/vm/max_map_count, or set run.guards = false",
        bytes, why);
  }
  std::fill(m.at + place.watched_from, m.at + place.begin, known_byte);
  std::fill(m.at + place.begin, m.at + place.end, fresh_byte);
  std::fill(m.at + place.end, m.at + place.pages, known_byte);
  auto* const data = m.at + place.begin;
  blocks_.emplace(data, m);
  return data;
}

std::size_t GuardedMemory::give(const Block& b) noexcept {
  const auto it = blocks_.find(b.data);
  const auto& [at, bytes, name, place] = it->second;
  const auto known = [&](std::size_t begin, std::size_t end) {
    return std::span<const std::byte>(at + begin, end - begin);
  };
  if (const auto what = guard_damage(known(place.watched_from, place.begin),
                                     known(place.end, place.pages), bytes, b.kind))
    end_for_damage(*what);
  const auto freed = name;
  unmap(it->second);
  blocks_.erase(it);
  return freed;
}

std::span<std::byte> GuardedMemory::pages_of(const std::byte* p) const {
  auto it = blocks_.upper_bound(p);
  if (it == blocks_.begin()) return {};
  const auto& m = std::prev(it)->second;
  return p < m.at + m.place.pages ? std::span(m.at, m.place.pages) : std::span<std::byte>();
}

void GuardedMemory::unmap(const Mapped& m) noexcept {
  munmap(m.at - page_bytes(), m.place.reserved(page_bytes()));
}

GuardedMemory::~GuardedMemory() {
  for (const auto& [data, m] : blocks_) unmap(m);
}

}  // namespace trireme
