#include "kernels/fenced/fenced.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme {

// Two mappings of `bytes` of one anonymous file: {nobody may touch it, ours}.
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
      capacity_(physical_memory() / Arena::granule * Arena::granule),
      arena_(capacity_, capacity_) {
  std::tie(fence_, memory_) = map_twice(2 * capacity_);
}

Fenced::~Fenced() {
  munmap(fence_, 2 * capacity_);
  munmap(memory_, 2 * capacity_);
}

Block Fenced::take(std::size_t bytes, Kind kind, Queue first, Memory memory) {
  const auto t = arena_.take(bytes, kind, memory);
  if (memory == Memory::pinned) {  // the host's own: used at once, so everything before is over
    for (std::size_t q = 0; q < queue_count; ++q) run_to({static_cast<Queue>(q), t.last[q]});
    std::byte* data = memory_ + capacity_ + t.offset;
    std::memset(data, 0xff, t.bytes);
    return {data, t.bytes, kind, memory};
  }
  for (std::size_t q = 0; q < queue_count; ++q) wait(first, {static_cast<Queue>(q), t.last[q]});
  put(first, [this, t] { std::memset(memory_ + t.offset, 0xff, t.bytes); });
  return {fence_ + t.offset, t.bytes, kind, memory};
}

void Fenced::give(const Block& b, std::span<const Event> last) noexcept {
  const auto offset = b.memory == Memory::device
                          ? b.data - fence_
                          : b.data - memory_ - static_cast<std::ptrdiff_t>(capacity_);
  arena_.give(static_cast<std::size_t>(offset), b.bytes, b.kind, b.memory, last);
}

void Fenced::put(Queue q, std::function<void()> work) {
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
  if (e.queue != q && e.ticket > line(e.queue).done) put(q, [=, this] { run_to(e); });
}

bool Fenced::done(Event e) {
  run_to(e);
  return true;
}

View Fenced::real(View v) const {
  if (v && v.data >= fence_ && v.data < fence_ + 2 * capacity_)
    v.data = memory_ + (v.data - fence_);
  return v;
}

ConstView Fenced::real(ConstView v) const {
  if (v && v.data >= fence_ && v.data < fence_ + 2 * capacity_)
    v.data = memory_ + (v.data - fence_);
  return v;
}

Epilogue Fenced::real(const Epilogue& e) const {
  return {real(e.bias_N), real(e.gelu_MN), real(e.gelu_input_MN), real(e.row_sum_M)};
}

SampleRows Fenced::real(const SampleRows& r) const {
  return {real(r.sample_B), r.t0};
}

void Fenced::upload(Queue q, View dst, std::span<const std::byte> bytes) {
  put(q, [this, q, dst, copy = std::vector<std::byte>(bytes.begin(), bytes.end())] {
    host_.upload(q, real(dst), copy);
  });
}

void Fenced::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  run_to(record(q));
  host_.download(q, bytes, real(src));
}

std::size_t Fenced::attention_workspace(const AttentionShape& shape, DType dtype,
                                        Direction direction) const {
  return host_.attention_workspace(shape, dtype, direction);
}

void Fenced::copy(Queue queue, View dst, ConstView src, Accumulate how) {
  put(queue, [=, this] { host_.copy(queue, real(dst), real(src), how); });
}

void Fenced::fill(Queue queue, View v, double value) {
  put(queue, [=, this] { host_.fill(queue, real(v), value); });
}

void Fenced::matmul(Queue queue, View c, ConstView a, ConstView b, Accumulate how,
                    const Epilogue& epilogue) {
  put(queue, [=, this] { host_.matmul(queue, real(c), real(a), real(b), how, real(epilogue)); });
}

void Fenced::attention(Queue queue, View o, View lse, ConstView q, ConstView k, ConstView v,
                       const AttentionShape& shape, View workspace) {
  put(queue, [=, this] {
    host_.attention(queue, real(o), real(lse), real(q), real(k), real(v), shape, real(workspace));
  });
}

void Fenced::attention_grad(Queue queue, View dq, View dk, View dv, ConstView d_o, ConstView o,
                            ConstView lse, ConstView q, ConstView k, ConstView v,
                            const AttentionShape& shape, View workspace) {
  put(queue, [=, this] {
    host_.attention_grad(queue, real(dq), real(dk), real(dv), real(d_o), real(o), real(lse),
                         real(q), real(k), real(v), shape, real(workspace));
  });
}

void Fenced::layer_norm(Queue queue, View y, View mean, View rstd, ConstView x, ConstView w,
                        ConstView b, double eps) {
  put(queue, [=, this] {
    host_.layer_norm(queue, real(y), real(mean), real(rstd), real(x), real(w), real(b), eps);
  });
}

void Fenced::layer_norm_grad(Queue queue, View dx, View dw, View db, Accumulate how, ConstView dy,
                             ConstView x, ConstView w, ConstView mean, ConstView rstd) {
  put(queue, [=, this] {
    host_.layer_norm_grad(queue, real(dx), real(dw), real(db), how, real(dy), real(x), real(w),
                          real(mean), real(rstd));
  });
}

void Fenced::rms_norm(Queue queue, View y, View rstd, ConstView x, ConstView w, double eps) {
  put(queue, [=, this] { host_.rms_norm(queue, real(y), real(rstd), real(x), real(w), eps); });
}

void Fenced::rms_norm_grad(Queue queue, View dx, View dw, Accumulate how, ConstView dy, ConstView x,
                           ConstView w, ConstView rstd) {
  put(queue, [=, this] {
    host_.rms_norm_grad(queue, real(dx), real(dw), how, real(dy), real(x), real(w), real(rstd));
  });
}

void Fenced::rotary(Queue queue, View x, ConstView table, Direction direction) {
  put(queue, [=, this] { host_.rotary(queue, real(x), real(table), direction); });
}

void Fenced::gelu(Queue queue, View y, ConstView x) {
  put(queue, [=, this] { host_.gelu(queue, real(y), real(x)); });
}

void Fenced::gelu_grad(Queue queue, View dx, ConstView dy, ConstView x) {
  put(queue, [=, this] { host_.gelu_grad(queue, real(dx), real(dy), real(x)); });
}

void Fenced::swiglu(Queue queue, View y, ConstView gate_up) {
  put(queue, [=, this] { host_.swiglu(queue, real(y), real(gate_up)); });
}

void Fenced::swiglu_grad(Queue queue, View dgate_up, ConstView dy, ConstView gate_up) {
  put(queue, [=, this] { host_.swiglu_grad(queue, real(dgate_up), real(dy), real(gate_up)); });
}

void Fenced::dropout(Queue queue, View y, ConstView x, ConstView skip, const DropoutKey& key,
                     const SampleRows& rows) {
  put(queue, [=, this] { host_.dropout(queue, real(y), real(x), real(skip), key, real(rows)); });
}

void Fenced::embedding(Queue queue, View y, ConstView ids, ConstView table) {
  put(queue, [=, this] { host_.embedding(queue, real(y), real(ids), real(table)); });
}

void Fenced::embedding_grad(Queue queue, View dtable, Accumulate how, ConstView dy, ConstView ids) {
  put(queue, [=, this] { host_.embedding_grad(queue, real(dtable), how, real(dy), real(ids)); });
}

void Fenced::cross_entropy(Queue queue, View loss, Accumulate how, View logits, ConstView target,
                           double scale, Logits what) {
  put(queue, [=, this] {
    host_.cross_entropy(queue, real(loss), how, real(logits), real(target), scale, what);
  });
}

void Fenced::column_sum(Queue queue, View out, Accumulate how, ConstView x) {
  put(queue, [=, this] { host_.column_sum(queue, real(out), how, real(x)); });
}

void Fenced::sgd(Queue queue, std::span<const SgdPart> parts) {
  put(queue, [this, queue, all = std::vector(parts.begin(), parts.end())]() mutable {
    for (auto& p : all) p = {real(p.master), real(p.copy), real(p.grad), p.how};
    host_.sgd(queue, all);
  });
}

void Fenced::adamw(Queue queue, std::span<const AdamWPart> parts) {
  put(queue, [this, queue, all = std::vector(parts.begin(), parts.end())]() mutable {
    for (auto& p : all)
      p = {real(p.master), real(p.m), real(p.v), real(p.copy), real(p.grad), p.how};
    host_.adamw(queue, all);
  });
}

void Fenced::sum_squares(Queue queue, View out, std::span<const ConstView> x) {
  put(queue, [=, this, x = std::vector(x.begin(), x.end())]() mutable {
    for (auto& v : x) v = real(v);
    host_.sum_squares(queue, real(out), x);
  });
}

}  // namespace trireme
