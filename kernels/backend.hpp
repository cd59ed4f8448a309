#pragma once
// The hardware contract: everything Trireme asks of a machine. Kernels see Views, allocate nothing,
// and are asynchronous on their queue unless said otherwise.
//
// Shapes: B samples, T positions (or rows: B*T flattened where no B stands beside it), C width,
// H query heads, G key/value heads, D head dim, F hidden width, V vocabulary, M N K of a product.
// Dtypes: one compute type (bf16, f32 or f64) in a call; statistics, losses' gradients of weights,
// master weights and moments in wide(compute); token ids i32; sample numbers i64; sums f64.
// Views of activations are dense unless a parameter says strided.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/rng.hpp"
#include "lib/base/view.hpp"

namespace trireme {

// Work put on one queue runs in order; queues are ordered against each other by events alone.
enum class Queue : std::uint8_t { compute, gather, scatter, exchange, down, up, host };
inline constexpr int queue_count = 7;
std::string_view name_of(Queue);

// "Everything put on `queue` up to `ticket`". A value; ticket 0 is the past.
struct Event {
  Queue queue = Queue::compute;
  std::uint64_t ticket = 0;
};

// What a block is for, in the account.
enum class Kind : std::uint8_t {
  weights,
  optimizer,
  gradients,
  gathered,
  saved,
  transient,
  boundary,
  staging,
  snapshot,
  workspace
};
inline constexpr int kind_count = 10;
std::string_view name_of(Kind);

enum class Memory : std::uint8_t { device, pinned };

struct Block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  // rounded up by the arena
  Kind kind{};
  Memory memory{};
};

// Bytes, a pure function of the sequence of takes and gives: equal on every backend.
struct Account {
  std::array<std::size_t, kind_count> live{}, peak{};
  std::size_t live_all = 0, peak_all = 0;
  std::size_t reserved = 0;         // most address space ever needed, gaps included
  std::size_t pinned_reserved = 0;  // the same of Memory::pinned
};

enum class Accumulate : std::uint8_t { overwrite, add };
enum class Direction : std::uint8_t { forward, backward };
enum class Logits : std::uint8_t { keep, become_gradient };

// What is done to a product c = a b while its operands are at hand. All absent: nothing. A bias may
// stand beside gelu_MN; otherwise there is one of them.
struct Epilogue {
  ConstView bias_N{};
  View gelu_MN{};             // gets GELU-tanh of c, which stays the pre-activation
  ConstView gelu_input_MN{};  // c, dense, is multiplied by GELU-tanh's slope at these
  View row_sum_M{};           // wide; gets the sum over K of a, added to where c is; a' is dense
};

struct AttentionShape {
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  double scale;
};

// Which samples and positions the rows of a [B, T, ...] view are.
struct SampleRows {
  ConstView sample_B;   // i64, global sample numbers
  std::int64_t t0 = 0;  // position of the first row of each sample
};

// w -= lr * (scale * g + decay * w)
struct Sgd {
  double lr, decay, scale;
};

// Loshchilov, Hutter 2019: decoupled decay. `count` starts at 1; `scale` multiplies the gradient.
struct AdamW {
  double lr, beta1, beta2, eps, decay, scale;
  std::int64_t count;
};

// Of flat shards in an optimizer's step. `copy` is the compute-type copy of the new weights, absent
// when master serves.
struct SgdPart {
  View master, copy;
  ConstView grad;
  Sgd how;
};
struct AdamWPart {
  View master, m, v, copy;
  ConstView grad;
  AdamW how;
};

class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string_view name() const = 0;
  // May the host read and write the memory that `take` returns? Pinned memory always.
  virtual bool host_readable() const = 0;
  // The host itself reads or writes memory that it may, in the order of this queue: nothing to do
  // but for a backend that checks the order of accesses.
  virtual void touched(Queue, ConstView /*read*/, View /*written*/) {}

  // Memory. Blocks are taken and given back in program order. `last` names for each queue the last
  // event that used the block; the next taker's `first` queue waits for them. Throws Error with the
  // account when memory is exhausted. `give` never throws.
  virtual Block take(std::size_t bytes, Kind, Queue first, Memory = Memory::device) = 0;
  virtual void give(const Block&, std::span<const Event> last) noexcept = 0;
  virtual const Account& account() const = 0;
  // Scratch that kernels on compute need at all times: lib/ takes it once and lends it.
  virtual std::size_t workspace_bytes() const = 0;
  virtual void lend_workspace(View) = 0;
  // Rows of logits that the head makes at a time: enough to keep this machine busy.
  virtual std::int64_t head_rows() const { return 256; }

  // Queues.
  virtual Event record(Queue) = 0;
  virtual void wait(Queue, Event) = 0;
  virtual bool done(Event) = 0;
  virtual void* native(Queue) = 0;
  // What is put on compute between the first two may be kept back and given to the device as one
  // piece of work (a graph). `which` is the same for what is alike from one time to the next. In
  // between nothing is uploaded, downloaded or put on other queues, none waits for it, and compute
  // waits for nothing that was not recorded before. drop_graph instead of end_graph: what was put
  // there is not to be done.
  virtual void begin_graph(std::uint64_t /*which*/) {}
  virtual void end_graph() {}
  virtual void drop_graph() noexcept {}

  // Data. Strided on both sides, any dims; casts between compute types. `upload` has copied its
  // span when it returns; `download` returns when the bytes are there (dense views both).
  virtual void copy(Queue, View dst, ConstView src, Accumulate = Accumulate::overwrite) = 0;
  virtual void fill(Queue, View, double) = 0;
  virtual void upload(Queue, View dst, std::span<const std::byte>) = 0;
  virtual void download(Queue, std::span<std::byte>, ConstView src) = 0;

  // c = a b, or c += a b. Two dims each, one of the two strides is 1 (transposes are strides). c is
  // in the compute type, or in its wide type for weight gradients.
  virtual void matmul(Queue, View c_MN, ConstView a_MK, ConstView b_KN,
                      Accumulate = Accumulate::overwrite, const Epilogue& = {}) = 0;

  // Causal softmax(scale q k') v over heads; query head h reads key/value head h * G / H. Strided:
  // only the last dim is dense. lse is the log of the sum of exponentials, the one thing backward
  // needs beside inputs and output. The workspace has the bytes asked for by shape and direction.
  virtual std::size_t attention_workspace(const AttentionShape&, DType, Direction) const = 0;
  virtual void attention(Queue, View o_BTHD, View lse_BHT, ConstView q_BTHD, ConstView k_BTGD,
                         ConstView v_BTGD, const AttentionShape&, View workspace) = 0;
  virtual void attention_grad(Queue, View dq_BTHD, View dk_BTGD, View dv_BTGD, ConstView do_BTHD,
                              ConstView o_BTHD, ConstView lse_BHT, ConstView q_BTHD,
                              ConstView k_BTGD, ConstView v_BTGD, const AttentionShape&,
                              View workspace) = 0;

  // y = (x - mean) * rstd * w + b over each row. b may be absent. In the gradients dx is absent
  // when nobody wants it, dw and db when their parameter is frozen; `how` is about dw and db.
  virtual void layer_norm(Queue, View y_TC, View mean_T, View rstd_T, ConstView x_TC, ConstView w_C,
                          ConstView b_C, double eps) = 0;
  virtual void layer_norm_grad(Queue, View dx_TC, View dw_C, View db_C, Accumulate how,
                               ConstView dy_TC, ConstView x_TC, ConstView w_C, ConstView mean_T,
                               ConstView rstd_T) = 0;
  // y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps)
  virtual void rms_norm(Queue, View y_TC, View rstd_T, ConstView x_TC, ConstView w_C,
                        double eps) = 0;
  virtual void rms_norm_grad(Queue, View dx_TC, View dw_C, Accumulate how, ConstView dy_TC,
                             ConstView x_TC, ConstView w_C, ConstView rstd_T) = 0;

  // In place on a strided view: the halves (x1, x2) of each head turn by the angle of their
  // position: forward (x1 c - x2 s, x2 c + x1 s), backward the inverse. table_T2E holds cos then
  // sin for E = D/2 frequencies in the wide type; its first row belongs to the view's position 0.
  virtual void rotary(Queue, View x_BTHD, ConstView table_T2E, Direction) = 0;

  virtual void gelu(Queue, View y, ConstView x) = 0;
  virtual void gelu_grad(Queue, View dx, ConstView dy, ConstView x) = 0;
  // y = silu(gate) * up with gate = gate_up[:, 0, :], up = gate_up[:, 1, :]
  virtual void swiglu(Queue, View y_TF, ConstView gate_up_T2F) = 0;
  virtual void swiglu_grad(Queue, View dgate_up_T2F, ConstView dy_TF, ConstView gate_up_T2F) = 0;

  // y = skip + x * keep / (1 - p); skip may be absent; p = 0 keeps everything; y may be x or skip.
  virtual void dropout(Queue, View y_BTC, ConstView x_BTC, ConstView skip_BTC, const DropoutKey&,
                       const SampleRows&) = 0;

  // sum = skip + dropout(x) and y = its norm: dropout, then layer_norm, or rms_norm where mean and
  // b are absent. sum may be x. In the gradient dx, which may be absent, gets dsum + what the norm
  // hands back; dsum may be absent, dx is none of the operands. The defaults do it in two steps.
  virtual void residual_norm(Queue, View sum_BTC, View y_BTC, View mean_T, View rstd_T,
                             ConstView x_BTC, ConstView skip_BTC, ConstView w_C, ConstView b_C,
                             double eps, const DropoutKey&, const SampleRows&);
  virtual void residual_norm_grad(Queue, View dx_TC, View dw_C, View db_C, Accumulate how,
                                  ConstView dsum_TC, ConstView dy_TC, ConstView sum_TC,
                                  ConstView w_C, ConstView mean_T, ConstView rstd_T);

  virtual void embedding(Queue, View y_TC, ConstView ids_T, ConstView table_VC) = 0;
  // Rows of the same id are added in row order.
  virtual void embedding_grad(Queue, View dtable_VC, Accumulate, ConstView dy_TC,
                              ConstView ids_T) = 0;

  // loss (f64, one element) gets the sum over rows of -log softmax(logits)[target], rows with
  // target -1 contribute nothing; logits become scale * d(that sum)/d(logits) when asked to.
  virtual void cross_entropy(Queue, View loss, Accumulate, View logits_TV, ConstView target_T,
                             double scale, Logits) = 0;

  // out_C = sum over rows, in the wide type.
  virtual void column_sum(Queue, View out_C, Accumulate, ConstView x_TC) = 0;

  // Parts that do not overlap are told together, as many are small. Copies are of one dtype.
  virtual void sgd(Queue, std::span<const SgdPart>) = 0;
  virtual void adamw(Queue, std::span<const AdamWPart>) = 0;
  // out[i] (f64) = sum of squares of x[i] in f64: finite exactly when every element is. All x are
  // of one dtype; they are told together as most are small.
  virtual void sum_squares(Queue, View out_N, std::span<const ConstView> x) = 0;
};

}  // namespace trireme
