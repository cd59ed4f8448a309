#include "kernels/immediate.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cgroup.hpp"

namespace trireme {

std::size_t physical_memory() {
  const auto all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min(all, cgroup_limit());
}

Immediate::Immediate(BackendProperties properties, Poison poison, Guards guards)
    : properties_(std::move(properties)),
      poison_(poison),
      guards_(guards),
      capacity_(physical_memory() / Arena::granule * Arena::granule),
      ranges_{AddressRange(capacity_), AddressRange(capacity_)},
      arena_(capacity_, capacity_) {
  properties_.workspace_bytes = workspace_size;
}

Block Immediate::take(std::size_t bytes, MemoryKind kind, Queue, Memory memory) {
  const auto t = arena_.take(bytes, kind, memory);
  try {
    if (guards_ == Guards::on) return {guarded_.take(bytes, t.offset), t.bytes, kind, memory};
    range(memory).open_to(t.offset + t.bytes);
  } catch (const Error& e) {
    fail("{}, for {} bytes of {}. Memory by kind:\n{}", e.what(), bytes, name_of(kind),
         describe(account()));
  }
  return {range(memory).begin() + t.offset, t.bytes, kind, memory};
}

void Immediate::give(const Block& b, std::span<const Event> last) noexcept {
  if (guards_ == Guards::on) return arena_.give(guarded_.give(b), b.bytes, b.kind, b.memory, last);
  if (poison_ == Poison::on) std::memset(b.data, 0xff, b.bytes);
  arena_.give(static_cast<std::size_t>(b.data - range(b.memory).begin()), b.bytes, b.kind, b.memory,
              last);
}

void Immediate::upload(Queue, View dst, std::span<const std::byte> bytes) {
  expect(dst.dense() && dst.span_bytes() == bytes.size(), "upload fills a dense view");
  if (!bytes.empty()) std::memcpy(dst.data, bytes.data(), bytes.size());
}

void Immediate::download(Queue, std::span<std::byte> bytes, ConstView src) {
  expect(src.dense() && src.span_bytes() == bytes.size(), "download empties a dense view");
  if (!bytes.empty()) std::memcpy(bytes.data(), src.data, bytes.size());
}

}  // namespace trireme
