#include "kernels/dry/dry.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/work.hpp"

namespace trireme {

Dry::Dry(DryTarget target)
    : target_(std::move(target)), arena_(target_.capacity, target_.capacity) {}

// Addresses that nobody follows: device memory from 4 KiB on, pinned memory in the upper half.
static std::uintptr_t base(Memory m) {
  return m == Memory::device ? 4096 : std::uintptr_t{1} << 62;
}

Block Dry::take(std::size_t bytes, Kind kind, Queue first, Memory memory) {
  const auto t = arena_.take(bytes, kind, memory);
  for (std::size_t q = 0; q < queue_count; ++q) wait(first, {static_cast<Queue>(q), t.last[q]});
  return {reinterpret_cast<std::byte*>(base(memory) + t.offset), t.bytes, kind, memory};
}

void Dry::give(const Block& b, std::span<const Event> last) noexcept {
  arena_.give(reinterpret_cast<std::uintptr_t>(b.data) - base(b.memory), b.bytes, b.kind, b.memory,
              last);
}

// Pinned memory is no memory either: what is moved there and back is only noted.
static bool pinned(const std::byte* p) {
  return reinterpret_cast<std::uintptr_t>(p) >= base(Memory::pinned);
}

void Dry::op(const char* what, Queue q, std::initializer_list<ConstView> reads,
             std::initializer_list<View> writes) {
  require(!graph_begin_ || q == Queue::compute, "{} on queue {} cannot be part of a graph", what,
          trireme::name_of(q));
  if (!target_.order) return;
  accesses_.begin(what, q);
  for (const auto& v : reads) accesses_.touch(Touch::read, v);
  for (const auto& v : writes) accesses_.touch(Touch::write, v);
}

// An empty event of each queue: what comes after it is part of the graph.
void Dry::begin_graph(std::uint64_t) {
  require(!graph_begin_, "a graph is begun within another");
  auto& begin = graph_begin_.emplace();
  for (int q = 0; q < queue_count; ++q)
    begin[static_cast<std::size_t>(q)] = accesses_.record(static_cast<Queue>(q)).ticket;
}

void Dry::wait(Queue q, Event e) {
  if (graph_begin_ && q != e.queue)
    require(e.ticket <= (*graph_begin_)[static_cast<std::size_t>(e.queue)],
            "queue {} waits for queue {} within a graph", trireme::name_of(q),
            trireme::name_of(e.queue));
  accesses_.wait(q, e);
}

void Dry::copy(Queue q, View dst, ConstView src, Accumulate) {
  op("copy", q, {src}, {dst});
}
void Dry::fill(Queue q, View v, double) {
  op("fill", q, {}, {v});
}
void Dry::touched(Queue q, ConstView read, View written) {
  op("the host", q, {read}, {written});
}

void Dry::upload(Queue q, View dst, std::span<const std::byte> bytes) {
  require(!graph_begin_, "an upload cannot be part of a graph");
  ConstView src = dst;
  src.data = pinned(bytes.data()) ? bytes.data() : nullptr;
  op("upload", q, {src}, {dst});
}

void Dry::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  require(!graph_begin_, "a download cannot be part of a graph");
  if (pinned(bytes.data())) {
    View dst(bytes.data(), src.dtype, {src.count()});
    return op("download", q, {src}, {dst});
  }
  op("download", q, {src}, {});
  std::ranges::fill(bytes, std::byte{0});
  const double one = 1;
  if (src.dtype == DType::f64)
    for (std::size_t i = 0; i + sizeof one <= bytes.size(); i += sizeof one)
      std::memcpy(bytes.data() + i, &one, sizeof one);
}

void Dry::matmul(Queue q, View c, ConstView a, ConstView b, Accumulate, const Epilogue& e) {
  op("matmul", q, {a, b, e.bias_N, e.gelu_input_MN}, {c, e.gelu_MN, e.row_sum_M});
  flops_ += product_flops(c, a);
}

std::size_t Dry::attention_workspace(const AttentionShape& s, DType t, Direction d) const {
  return target_.attention_workspace(s, t, d);
}

void Dry::attention(Queue q, View o, View lse, ConstView q_, ConstView k, ConstView v,
                    const AttentionShape& s, View workspace) {
  op("attention", q, {q_, k, v}, {o, lse, workspace});
  flops_ += attention_flops(s, Direction::forward);
}

void Dry::attention_grad(Queue q, View dq, View dk, View dv, ConstView d_o, ConstView o,
                         ConstView lse, ConstView q_, ConstView k, ConstView v,
                         const AttentionShape& s, View workspace) {
  op("attention_grad", q, {d_o, o, lse, q_, k, v}, {dq, dk, dv, workspace});
  flops_ += attention_flops(s, Direction::backward);
}

void Dry::layer_norm(Queue q, View y, View mean, View rstd, ConstView x, ConstView w, ConstView b,
                     double) {
  op("layer_norm", q, {x, w, b}, {y, mean, rstd});
}

void Dry::layer_norm_grad(Queue q, View dx, View dw, View db, Accumulate, ConstView dy, ConstView x,
                          ConstView w, ConstView mean, ConstView rstd) {
  op("layer_norm_grad", q, {dy, x, w, mean, rstd}, {dx, dw, db});
}

void Dry::rms_norm(Queue q, View y, View rstd, ConstView x, ConstView w, double) {
  op("rms_norm", q, {x, w}, {y, rstd});
}

void Dry::rms_norm_grad(Queue q, View dx, View dw, Accumulate, ConstView dy, ConstView x,
                        ConstView w, ConstView rstd) {
  op("rms_norm_grad", q, {dy, x, w, rstd}, {dx, dw});
}

void Dry::rotary(Queue q, View x, ConstView table, Direction) {
  op("rotary", q, {x, table}, {x});
}

void Dry::gelu(Queue q, View y, ConstView x) {
  op("gelu", q, {x}, {y});
}
void Dry::gelu_grad(Queue q, View dx, ConstView dy, ConstView x) {
  op("gelu_grad", q, {dy, x}, {dx});
}
void Dry::swiglu(Queue q, View y, ConstView gate_up) {
  op("swiglu", q, {gate_up}, {y});
}
void Dry::swiglu_grad(Queue q, View dgate_up, ConstView dy, ConstView gate_up) {
  op("swiglu_grad", q, {dy, gate_up}, {dgate_up});
}

void Dry::dropout(Queue q, View y, ConstView x, ConstView skip, const DropoutKey&,
                  const SampleRows& rows) {
  op("dropout", q, {x, skip, rows.sample_B}, {y});
}

void Dry::embedding(Queue q, View y, ConstView ids, ConstView table) {
  op("embedding", q, {ids, table}, {y});
}

void Dry::embedding_grad(Queue q, View dtable, Accumulate, ConstView dy, ConstView ids) {
  op("embedding_grad", q, {dy, ids}, {dtable});
}

void Dry::cross_entropy(Queue q, View loss, Accumulate, View logits, ConstView target, double,
                        Logits) {
  op("cross_entropy", q, {logits, target}, {loss, logits});
}

void Dry::column_sum(Queue q, View out, Accumulate, ConstView x) {
  op("column_sum", q, {x}, {out});
}

void Dry::sgd(Queue q, std::span<const SgdPart> parts) {
  for (const auto& p : parts) op("sgd", q, {p.grad, p.master}, {p.master, p.copy});
}

void Dry::adamw(Queue q, std::span<const AdamWPart> parts) {
  for (const auto& p : parts)
    op("adamw", q, {p.grad, p.master, p.m, p.v}, {p.master, p.m, p.v, p.copy});
}

void Dry::sum_squares(Queue q, View out, std::span<const ConstView> x) {
  op("sum_squares", q, {}, {out});
  if (!target_.order) return;
  for (const auto& v : x) accesses_.touch(Touch::read, v);
}

}  // namespace trireme
