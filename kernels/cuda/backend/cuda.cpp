#include "kernels/cuda/backend/cuda.hpp"

#include <algorithm>
#include <exception>

#include "kernels/cuda/backend/device.hpp"

namespace trireme {
namespace {

using namespace cuda;

// Enables debugging if guards are on, so that a memory fault is reported with the operation that
// caused it.
CudaChoice debugging(CudaChoice c) {
  c.debug = c.debug || c.guards == Guards::on;
  return c;
}

}  // namespace

Cuda::Cuda(const CudaChoice& c)
    : choice_(debugging(c)),
      runtime_(open_runtime(c.device, c.hang_timeout)),
      timing_(*runtime_),
      queues_(*runtime_),
      memory_(*runtime_, queues_, c.headroom, c.guards),
      ring_(*runtime_),
      products_(c.bits, c.tf32 ? Tf32::on : Tf32::off, c.epilogues,
                [this](void* stream) { runtime_->synchronize(stream); }),
      sdpa_(determinism_of(c.bits), architecture(c.device)) {
  constexpr int hopper = 9;
  properties_.fp8 = architecture(c.device) / 10 == hopper;
}

// Waits for all work, because memory that running work uses must not be released. After an error,
// work may be waiting for another rank that has ended, so the wait is short.
Cuda::~Cuda() {
  constexpr double seconds_after_error = 10;
  if (std::uncaught_exceptions() > 0) runtime_->limit_waits(seconds_after_error);
  for (int q = 0; q < queue_count; ++q) try {
      queues_.synchronize(static_cast<Queue>(q));
    } catch (const Error&) {  // it was reported when it first occurred
    }
}

Block Cuda::take(std::size_t bytes, MemoryKind kind, Queue first, Memory memory) {
  const auto b = memory_.take(bytes, kind, first, memory);
  if (choice_.debug && memory == Memory::device)
    runtime_->set_bytes(b.data, 0xff, bytes, queues_.stream(first));
  return b;
}

void Cuda::give(const Block& b, std::span<const Event> last) noexcept {
  memory_.give(b, last);
}

template <class F>
void Cuda::on_stream(Queue q, std::string_view what, const Work& work, const F& f) {
  auto* const stream = queues_.stream(q);
  if (timing_.on())
    timing_.around(stream, what, work, [&] { f(stream); });
  else
    f(stream);
  if (!choice_.debug) return;
  try {
    runtime_->synchronize(stream);
  } catch (const Error& e) {
    fail("{} on queue {}: {}", what, trireme::name_of(q), e.what());
  }
}

void Cuda::put(Queue q, const kernel::Operation& operation) {
  check_operands(operation);
  if (const auto* product = std::get_if<kernel::Matmul>(&operation))
    put_product(q, *product);
  else
    std::visit([&](const auto& o) { put_one(q, o); }, operation);
}

template <class O>
void Cuda::put_one(Queue q, const O& o) {
  on_stream(q, o.name, work_of(o), [&](void* stream) {
    cuda::run(o, cuda::Resources{{stream, scratch_}, products_, sdpa_});
  });
}

// Puts a product. If the epilogue is not fused with the product, it follows as separate operations.
void Cuda::put_product(Queue q, const kernel::Matmul& o) {
  const auto behind = [&](const kernel::Matmul& product) {
    const auto& c = product.c_MN;
    const auto& e = product.epilogue;
    const auto& y = e.activated_MN;
    if (y && !c.dense()) put_one(q, kernel::Copy{.dst = y, .src = c});
    if (y)
      put_one(q, kernel::Activate{
                     .activation = e.activation, .y_N = y, .x_N = c.dense() ? ConstView(c) : y});
    if (e.activated_at_MN)
      put_one(q, kernel::ActivateGrad{
                     .activation = e.activation, .dx_N = c, .dy_N = c, .x_N = e.activated_at_MN});
    if (e.row_sum_M)
      put_one(q, kernel::ColumnSum{
                     .out_C = e.row_sum_M, .how = product.how, .x_TC = product.a_MK.transposed()});
  };
  const bool by_library = o.order != SumOrder::by_row;
  if (by_library && products_.fuses(queues_.stream(q), o, scratch_, behind)) return put_one(q, o);
  auto alone = o;
  alone.epilogue = {.bias_N = o.epilogue.bias_N};
  put_one(q, alone);
  if (o.c_MN.count() > 0) behind(o);
}

void Cuda::upload(Queue q, View dst, std::span<const std::byte> bytes) {
  expect(dst.dense() && dst.span_bytes() == bytes.size(), "upload fills a dense view");
  on_stream(q, "upload", {.bytes = bytes_seen(dst)},
            [&](void* stream) { ring_.upload(dst.data, bytes, stream); });
}

void Cuda::download(Queue q, std::span<std::byte> bytes, ConstView src) {
  expect(src.dense() && src.span_bytes() == bytes.size(), "download empties a dense view");
  const auto wait = [&] {
    try {
      queues_.synchronize(q);
    } catch (const Error& e) {
      fail(
          "an operation on the GPU failed before a download on queue {}: {}. Set run.debug = true "
          "to learn which operation",
          trireme::name_of(q), e.what());
    }
  };
  wait();  // a copy to pageable memory would block until the queue reaches it, without a time limit
  for (std::size_t at = 0; at < bytes.size();) {
    const auto rest = bytes.subspan(at);
    const auto n = std::min(rest.size(), memory_.copied_whole(rest.data()));
    runtime_->copy_to_host(rest.data(), src.data + at, n, queues_.stream(q));
    at += n;
  }
  wait();
}

// Calls f(offset, bytes) for the pieces of pinned memory that the driver can copy in one call.
template <class F>
static void in_pieces(const DeviceMemory& memory, const std::byte* pinned, std::size_t bytes,
                      const F& f) {
  for (std::size_t at = 0; at < bytes;) {
    const auto n = std::min(bytes - at, memory.copied_whole(pinned + at));
    f(at, n);
    at += n;
  }
}

void Cuda::bring_down(Queue q, View pinned, ConstView src) {
  on_stream(q, "bring_down", {.bytes = bytes_seen(src)}, [&](void* stream) {
    in_pieces(memory_, pinned.data, src.span_bytes(), [&](std::size_t at, std::size_t n) {
      runtime_->copy_to_host(pinned.data + at, src.data + at, n, stream);
    });
  });
}

void Cuda::bring_up(Queue q, View dst, ConstView pinned) {
  on_stream(q, "bring_up", {.bytes = bytes_seen(dst)}, [&](void* stream) {
    in_pieces(memory_, pinned.data, dst.span_bytes(), [&](std::size_t at, std::size_t n) {
      runtime_->copy_to_device(dst.data + at, pinned.data + at, n, stream);
    });
  });
}

AttentionBytes Cuda::attention_bytes(const AttentionShape& s, DType t, Direction d) const {
  return cuda_attention_bytes(s, t, d, choice_.bits);
}

}  // namespace trireme
