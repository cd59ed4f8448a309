#pragma once
// A backend without memory or arithmetic: it keeps the account of the backend it stands for, counts
// floating-point operations, and checks that any two accesses to the same bytes, one of them a
// write, are ordered by queues and events (vector clocks: Mattern 1989). Scalars in f64 read back
// as 1 and all else as 0, so a step's norms and losses are finite and nothing is skipped.
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/arena.hpp"
#include "kernels/backend.hpp"
#include "kernels/dry/accesses.hpp"

namespace trireme {

// The answers of the backend that is planned for.
struct DryTarget {
  std::string name;
  std::size_t capacity;  // bytes of device memory
  std::size_t workspace_bytes;
  std::function<std::size_t(const AttentionShape&, DType, Direction)> attention_workspace;
  bool host_readable = true;
  std::int64_t head_rows = 256;
  bool order = true;  // accesses are checked, which takes most of the time
};

class Dry : public Backend {
 public:
  explicit Dry(DryTarget);

  // Messages naming two unordered accesses each, the first few of them; and how many there were.
  const std::vector<std::string>& races() const { return accesses_.races(); }
  std::int64_t race_count() const { return accesses_.race_count(); }
  double flops() const { return flops_; }  // of products and attention

  std::string_view name() const override { return "dry"; }
  bool host_readable() const override { return target_.host_readable; }
  void touched(Queue, ConstView read, View written) override;
  Block take(std::size_t bytes, Kind, Queue first, Memory) override;
  void give(const Block&, std::span<const Event> last) noexcept override;
  const Account& account() const override { return arena_.account(); }
  std::size_t workspace_bytes() const override { return target_.workspace_bytes; }
  void lend_workspace(View v) override { scratch_ = v; }
  std::int64_t head_rows() const override { return target_.head_rows; }
  Event record(Queue q) override { return accesses_.record(q); }
  void wait(Queue q, Event e) override;
  bool done(Event) override { return true; }
  void* native(Queue) override { return nullptr; }
  void begin_graph(std::uint64_t which) override;
  void end_graph() override { graph_begin_.reset(); }
  void drop_graph() noexcept override { graph_begin_.reset(); }
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
  void embedding(Queue, View y, ConstView ids, ConstView table) override;
  void embedding_grad(Queue, View dtable, Accumulate, ConstView dy, ConstView ids) override;
  void cross_entropy(Queue, View loss, Accumulate, View logits, ConstView target, double scale,
                     Logits) override;
  void column_sum(Queue, View out, Accumulate, ConstView x) override;
  void sgd(Queue, std::span<const SgdPart>) override;
  void adamw(Queue, std::span<const AdamWPart>) override;
  void sum_squares(Queue, View out_N, std::span<const ConstView> x) override;

 private:
  void op(const char* what, Queue, std::initializer_list<ConstView> reads,
          std::initializer_list<View> writes);

  DryTarget target_;
  Arena arena_;
  Accesses accesses_;
  std::optional<std::array<std::uint64_t, queue_count>> graph_begin_;  // tickets
  View scratch_;
  double flops_ = 0;
};

}  // namespace trireme
