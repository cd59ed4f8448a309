#pragma once
// The host backend behind a fence, so that mistakes of a GPU build show on any machine. Memory is
// mapped twice: the addresses handed out may not be touched, so host code that reads or writes
// "device" memory faults; kernels work on the second mapping. And each queue runs as late as events
// and downloads allow, so a missing wait gives wrong numbers. Blocks are full of NaN when taken.
#include <array>
#include <deque>
#include <functional>

#include "kernels/host/host.hpp"

namespace trireme {

class Fenced final : public Backend {
 public:
  explicit Fenced(int threads);
  ~Fenced() override;

  std::string_view name() const override { return "fenced"; }
  bool host_readable() const override { return false; }
  Block take(std::size_t bytes, Kind, Queue first, Memory) override;
  void give(const Block&, std::span<const Event> last) noexcept override;
  const Account& account() const override { return arena_.account(); }
  std::size_t workspace_bytes() const override { return host_.workspace_bytes(); }
  void lend_workspace(View v) override { host_.lend_workspace(real(v)); }
  Event record(Queue) override;
  void wait(Queue, Event) override;
  bool done(Event) override;
  void* native(Queue) override { return nullptr; }
  void upload(Queue, View dst, std::span<const std::byte>) override;
  void download(Queue, std::span<std::byte>, ConstView src) override;
  std::size_t attention_workspace(const AttentionShape&, DType, Direction) const override;
  void copy(Queue, View dst, ConstView src, Accumulate) override;
  void fill(Queue, View, double) override;
  void matmul(Queue, View c, ConstView a, ConstView b, Accumulate, const Epilogue&) override;
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
  void embedding(Queue, View y, ConstView ids, ConstView table) override;
  void embedding_grad(Queue, View dtable, Accumulate, ConstView dy, ConstView ids) override;
  void cross_entropy(Queue, View loss, Accumulate, View logits, ConstView target, double scale,
                     Logits) override;
  void column_sum(Queue, View out, Accumulate, ConstView x) override;
  void sgd(Queue, std::span<const SgdPart>) override;
  void adamw(Queue, std::span<const AdamWPart>) override;
  void sum_squares(Queue, View out_N, std::span<const ConstView> x) override;

 private:
  struct Line {
    std::deque<std::function<void()>> waiting;
    std::uint64_t put = 0, done = 0;
  };
  Line& line(Queue q) { return lines_[static_cast<std::size_t>(q)]; }
  void put(Queue, std::function<void()>);
  void run_to(Event);
  View real(View) const;
  ConstView real(ConstView) const;
  Epilogue real(const Epilogue&) const;
  SampleRows real(const SampleRows&) const;

  Host host_;
  std::size_t capacity_;
  std::byte *fence_, *memory_;  // two mappings of one file; pinned blocks in the upper half
  Arena arena_;
  std::array<Line, queue_count> lines_;
};

}  // namespace trireme
