#include "kernels/fenced/fenced.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme {

// Maps an anonymous file of `bytes` bytes twice. Returns the inaccessible and the accessible
// mapping, in this order.
static std::pair<std::byte*, std::byte*> map_twice(std::size_t bytes) {
  const int file = memfd_create("trireme-fence", MFD_CLOEXEC);
  require(file >= 0, "cannot make the fence's memory file: {}", std::strerror(errno));
  const bool sized = ftruncate(file, static_cast<off_t>(bytes)) == 0;
  const auto map = [&](int protection) {
    return mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  };
  void *fence = map(PROT_NONE), *memory = map(PROT_READ | PROT_WRITE);
  const int error = errno;
  close(file);
  require(sized && fence != MAP_FAILED && memory != MAP_FAILED,
          "cannot map the fence's {} bytes: {}; raise `ulimit -v`", bytes, std::strerror(error));
  return {static_cast<std::byte*>(fence), static_cast<std::byte*>(memory)};
}

Fenced::Fenced(int threads)
    : host_(threads),
      properties_(host_.properties()),
      capacity_(physical_memory() / Arena::granule * Arena::granule),
      arena_(capacity_, capacity_) {
  properties_.name = "fenced";
  properties_.host_readable = false;
  std::tie(fence_, memory_) = map_twice(2 * capacity_);
}

Fenced::~Fenced() {
  munmap(fence_, 2 * capacity_);
  munmap(memory_, 2 * capacity_);
}

Block Fenced::take(std::size_t bytes, MemoryKind kind, Queue first, Memory memory) {
  const auto t = arena_.take(bytes, kind, memory);
  if (memory == Memory::pinned) {  // the host may use it at once, so earlier uses must be done
    for (std::size_t q = 0; q < queue_count; ++q) run_to({static_cast<Queue>(q), t.last[q]});
    std::byte* data = memory_ + capacity_ + t.offset;
    std::memset(data, 0xff, t.bytes);
    return {data, t.bytes, kind, memory};
  }
  for (std::size_t q = 0; q < queue_count; ++q) wait(first, {static_cast<Queue>(q), t.last[q]});
  defer(first, [this, t] { std::memset(memory_ + t.offset, 0xff, t.bytes); });
  return {fence_ + t.offset, t.bytes, kind, memory};
}

void Fenced::give(const Block& b, std::span<const Event> last) noexcept {
  const auto offset = b.memory == Memory::device
                          ? b.data - fence_
                          : b.data - memory_ - static_cast<std::ptrdiff_t>(capacity_);
  arena_.give(static_cast<std::size_t>(offset), b.bytes, b.kind, b.memory, last);
}

void Fenced::defer(Queue q, std::function<void()> work) {
  line(q).waiting.push_back(std::move(work));
  ++line(q).put;
}

void Fenced::run_to(Event e) {
  auto& l = line(e.queue);
  while (l.done < e.ticket) {
    const auto work = std::move(l.waiting.front());
    l.waiting.pop_front();
    work();
    ++l.done;
  }
}

Event Fenced::record(Queue q) {
  return {q, line(q).put};
}

void Fenced::wait(Queue q, Event e) {
  if (e.queue != q && e.ticket > line(e.queue).done) defer(q, [=, this] { run_to(e); });
}

bool Fenced::done(Event e) {
  run_to(e);
  return true;
}

template <class AnyView>
AnyView Fenced::inside(AnyView v) const {
  if (v && v.data >= fence_ && v.data < fence_ + 2 * capacity_)
    v.data = memory_ + (v.data - fence_);
  return v;
}

void Fenced::put(Queue q, const kernel::Operation& operation) {
  kernel::check_operands(operation);
  defer(q, [this, q, inner = operation]() mutable {
    std::visit([this](auto& o) { each_operand(o, [&](auto& v, Role) { v = inside(v); }); }, inner);
    host_.put(q, inner);
  });
}

void Fenced::upload(Queue q, View dst, std::span<const std::byte> bytes) {
  defer(q, [this, q, dst, copy = std::vector<std::byte>(bytes.begin(), bytes.end())] {
    host_.upload(q, inside(dst), copy);
  });
}

void Fenced::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  run_to(record(q));
  host_.download(q, bytes, inside(src));
}

}  // namespace trireme
