#include "kernels/immediate.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/cgroup.hpp"

namespace trireme {

std::size_t physical_memory() {
  const auto all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min(all, cgroup_limit());
}

// Device and pinned blocks live in the two halves of one range of address space; pages cost
// nothing until they are touched.
static std::byte* reserve(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(p != MAP_FAILED, "cannot reserve {} bytes of address space: {}; raise `ulimit -v`", bytes,
          std::strerror(errno));
  madvise(p, bytes, MADV_HUGEPAGE);  // advice: a refusal costs speed alone
  return static_cast<std::byte*>(p);
}

Immediate::Immediate(std::string name, Poison poison)
    : properties_{.name = std::move(name), .workspace_bytes = workspace_size},
      poison_(poison),
      capacity_(physical_memory() / Arena::granule * Arena::granule),
      base_(reserve(2 * capacity_)),
      arena_(capacity_, capacity_) {}

Immediate::~Immediate() {
  munmap(base_, 2 * capacity_);
}

std::byte* Immediate::base(Memory m) const {
  return m == Memory::device ? base_ : base_ + capacity_;
}

Block Immediate::take(std::size_t bytes, Kind kind, Queue, Memory memory) {
  const auto t = arena_.take(bytes, kind, memory);
  return {base(memory) + t.offset, t.bytes, kind, memory};
}

void Immediate::give(const Block& b, std::span<const Event> last) noexcept {
  if (poison_ == Poison::on) std::memset(b.data, 0xff, b.bytes);
  arena_.give(static_cast<std::size_t>(b.data - base(b.memory)), b.bytes, b.kind, b.memory, last);
}

void Immediate::upload(Queue, View dst, std::span<const std::byte> bytes) {
  expect(dst.dense() && dst.span_bytes() == bytes.size(), "upload fills a dense view");
  std::memcpy(dst.data, bytes.data(), bytes.size());
}

void Immediate::download(Queue, std::span<std::byte> bytes, ConstView src) {
  expect(src.dense() && src.span_bytes() == bytes.size(), "download empties a dense view");
  std::memcpy(bytes.data(), src.data, bytes.size());
}

}  // namespace trireme
