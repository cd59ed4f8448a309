#pragma once
// The NVIDIA backend: one device, a stream for each queue, cuBLASLt, cuDNN and own kernels. f32 and
// bf16. Nothing in a step waits for the whole device; only `download` waits, for its queue.
#include <memory>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/graphs.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/nvtx.hpp"
#include "kernels/cuda/queues.hpp"
#include "kernels/cuda/sdpa.hpp"
#include "kernels/cuda/timing.hpp"
#include "kernels/cuda/upload.hpp"

namespace trireme {

class Cuda final : public Backend {
 public:
  // Throws Error where the device does not answer.
  explicit Cuda(const CudaChoice&);
  ~Cuda() override;

  std::string_view name() const override { return "cuda"; }
  bool host_readable() const override { return false; }
  Block take(std::size_t bytes, Kind, Queue first, Memory) override;
  void give(const Block&, std::span<const Event> last) noexcept override;
  const Account& account() const override { return memory_.account(); }
  std::size_t workspace_bytes() const override { return cuda::Products::workspace_bytes; }
  void lend_workspace(View v) override { scratch_ = v; }
  std::int64_t head_rows() const override { return cuda_head_rows; }
  Event record(Queue q) override { return queues_.record(q); }
  void wait(Queue q, Event e) override { queues_.wait(q, e); }
  bool done(Event e) override { return queues_.done(e); }
  void* native(Queue q) override { return queues_.stream(q); }
  void begin_graph(std::uint64_t which) override;
  void end_graph() override;
  void drop_graph() noexcept override;
  cuda::Timing& timing() { return timing_; }
  const cuda::Products& products() const { return products_; }

  void copy(Queue, View dst, ConstView src, Accumulate) override;
  void fill(Queue, View, double) override;
  void upload(Queue, View dst, std::span<const std::byte>) override;
  void download(Queue, std::span<std::byte>, ConstView src) override;
  void matmul(Queue, View c, ConstView a, ConstView b, Accumulate, const Epilogue&) override;
  std::size_t attention_workspace(const AttentionShape&, DType, Direction) const override;
  void attention(Queue, View o, View lse, ConstView q, ConstView k, ConstView v,
                 const AttentionShape&, View workspace) override;
  void attention_grad(Queue, View dq, View dk, View dv, ConstView d_o, ConstView o, ConstView lse,
                      ConstView q, ConstView k, ConstView v, const AttentionShape&,
                      View workspace) override;
  void layer_norm(Queue, View y, View mean, View rstd, ConstView x, ConstView w, ConstView b,
                  double eps) override;
  void layer_norm_grad(Queue, View dx, View dw, View db, Accumulate, ConstView dy, ConstView x,
                       ConstView w, ConstView mean, ConstView rstd) override;
  void rms_norm(Queue, View y, View rstd, ConstView x, ConstView w, double eps) override;
  void rms_norm_grad(Queue, View dx, View dw, Accumulate, ConstView dy, ConstView x, ConstView w,
                     ConstView rstd) override;
  void rotary(Queue, View x, ConstView table, Direction) override;
  void gelu(Queue, View y, ConstView x) override;
  void gelu_grad(Queue, View dx, ConstView dy, ConstView x) override;
  void swiglu(Queue, View y, ConstView gate_up) override;
  void swiglu_grad(Queue, View dgate_up, ConstView dy, ConstView gate_up) override;
  void dropout(Queue, View y, ConstView x, ConstView skip, const DropoutKey&,
               const SampleRows&) override;
  void residual_norm(Queue, View sum, View y, View mean, View rstd, ConstView x, ConstView skip,
                     ConstView w, ConstView b, double eps, const DropoutKey&,
                     const SampleRows&) override;
  void residual_norm_grad(Queue, View dx, View dw, View db, Accumulate, ConstView dsum,
                          ConstView dy, ConstView sum, ConstView w, ConstView mean,
                          ConstView rstd) override;
  void embedding(Queue, View y, ConstView ids, ConstView table) override;
  void embedding_grad(Queue, View dtable, Accumulate, ConstView dy, ConstView ids) override;
  void cross_entropy(Queue, View loss, Accumulate, View logits, ConstView target, double scale,
                     Logits) override;
  void column_sum(Queue, View out, Accumulate, ConstView x) override;
  void sgd(Queue, std::span<const SgdPart>) override;
  void adamw(Queue, std::span<const AdamWPart>) override;
  void sum_squares(Queue, View out_N, std::span<const ConstView> x) override;

 private:
  // Puts an operation on the queue's stream; what it has to do matters to who times it. When
  // debugging, waits for it, so that a fault on the device is told with the operation's name.
  template <class F>
  void put(Queue, const char* what, const Work&, const F&);
  template <class F>
  void put(Queue q, const char* what, const F& f) {
    put(q, what, Work{}, f);
  }
  // The lent workspace, if it has so many bytes.
  template <class T>
  T* scratch(std::size_t bytes, const char* what) const;

  CudaChoice choice_;
  std::unique_ptr<cuda::Runtime> runtime_;
  cuda::NvtxRanges ranges_;
  cuda::Timing timing_;
  cuda::Queues queues_;
  cuda::Graphs graphs_;
  cuda::DeviceMemory memory_;
  cuda::UploadRing ring_;
  cuda::Products products_;
  cuda::Sdpa sdpa_;
  View scratch_;
};

template <class F>
void Cuda::put(Queue q, const char* what, const Work& work, const F& f) {
  expect(!graphs_.recording() || q == Queue::compute, "a graph is of compute's work alone");
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

template <class T>
T* Cuda::scratch(std::size_t bytes, const char* what) const {
  require(scratch_ && scratch_.span_bytes() >= bytes,
          "{} needs {} bytes of workspace, {} are lent: use a smaller train.microbatch", what,
          bytes, scratch_ ? scratch_.span_bytes() : 0);
  return reinterpret_cast<T*>(scratch_.data);
}

}  // namespace trireme
