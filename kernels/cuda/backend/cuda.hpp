#pragma once
// The NVIDIA backend. It uses one device, a stream for each queue, cuBLASLt, cuDNN and its own
// kernels. The types are f32 and bf16. No call in a training step waits for the whole device. Only
// `download`, and matrix products of experts whose offsets the host does not know, block the host
// until their own queue is done.
#include <memory>

#include "kernels/cuda/backend/nvtx.hpp"
#include "kernels/cuda/backend/operations.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/runtime/memory.hpp"
#include "kernels/cuda/runtime/queues.hpp"
#include "kernels/cuda/runtime/timing.hpp"
#include "kernels/cuda/runtime/upload.hpp"

namespace trireme {

// Backend of one NVIDIA GPU.
class Cuda final : public Backend {
 public:
  // Opens the device. Throws Error if the device does not respond.
  explicit Cuda(const CudaChoice&);
  ~Cuda() override;

  const BackendProperties& properties() const override { return properties_; }
  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape&, DType, Direction) const override;
  Block take(std::size_t bytes, MemoryKind, Queue first, Memory) override;
  void give(const Block&, std::span<const Event> last) noexcept override;
  const Account& account() const override { return memory_.account(); }
  void lend_workspace(View v) override { scratch_ = v; }
  Event record(Queue q) override { return queues_.record(q); }
  void wait(Queue q, Event e) override { queues_.wait(q, e); }
  bool done(Event e) override { return queues_.done(e); }
  void* native(Queue q) override { return queues_.stream(q); }
  cuda::Timing& timing() { return timing_; }
  const cuda::Products& products() const { return products_; }

  void upload(Queue, View dst, std::span<const std::byte>) override;
  void download(Queue, std::span<std::byte>, ConstView src) override;
  void bring_down(Queue, View pinned, ConstView src) override;
  void bring_up(Queue, View dst, ConstView pinned) override;

 private:
  template <class O>
  void put_one(Queue, const O&);
  // Puts a matrix product on the queue, and then the parts of its epilogue that are not fused into
  // the product.
  void put_product(Queue, const kernel::Matmul&);
  // Calls f(stream) with the queue's stream. If timing is on, records the operation's time and
  // `work`. In debug mode, waits for the operation, so that an error on the device is reported
  // under the name `what`.
  template <class F>
  void on_stream(Queue, std::string_view what, const Work&, const F&);

  BackendProperties properties_ = cuda_properties();
  CudaChoice choice_;
  std::unique_ptr<cuda::Runtime> runtime_;
  cuda::NvtxRanges ranges_;
  cuda::Timing timing_;
  cuda::Queues queues_;
  cuda::DeviceMemory memory_;
  cuda::UploadRing ring_;
  cuda::Products products_;
  cuda::Sdpa sdpa_;
  View scratch_;
};

}  // namespace trireme
