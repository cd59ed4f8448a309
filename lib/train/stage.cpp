#include "lib/train/stage.hpp"

#include <algorithm>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/ops/key_values.hpp"
#include "lib/ops/sequence_layout.hpp"
#include "lib/train/counted_tokens.hpp"

namespace trireme {

namespace {

// Gradients for the first half of a divided backward pass. It marks weight gradients as wanted, and
// refuses additions, because a later call adds the gradients.
class LaterGradients final : public Gradients {
 public:
  void add(std::span<const ParamId>, std::int64_t, const Fill&) override { refuse(); }
  void add_whole(std::span<const ParamId>, std::int64_t, const FillWhole&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    fail(
        "an op adds weight gradients together with input gradients, but the schedule computes them "
        "separately");
  }
};

}  // namespace

ModelStage::ModelStage(const Model& model, std::span<const Chunk> chunks, Session& session,
                       Backend& backend, const Communicator& seq,
                       const ops::SequenceLayout& sequence, std::span<const Batch> microbatches,
                       Recompute recompute, Settings settings)
    : model_(model),
      chunks_(chunks),
      session_(session),
      backend_(backend),
      seq_(seq),
      sequence_(sequence),
      batches_(microbatches),
      recompute_(recompute),
      settings_(std::move(settings)),
      dropped_from_(static_cast<int>(microbatches.size())),
      results_(chunks.back().last() ? microbatches.size() + (head_does<HeadInputs>() ? 1 : 0) : 0) {
}

const Cached* ModelStage::cached() const {
  const auto* const logits = head_does<HeadLogits>();
  return logits ? logits->cached : nullptr;
}

static std::int64_t tokens_of(const Batch& b) {
  return static_cast<std::int64_t>(b.ids_BT.size() / b.sample_B.size());
}

Boundary ModelStage::boundary() const {
  const auto samples = static_cast<std::int64_t>(batches_[0].sample_B.size());
  return {{samples, tokens_of(batches_[0]), model_.spec().config.width}, model_.compute()};
}

template <class T>
static Tensor to_device(Backend& b, const Shape& shape, std::span<const T> values) {
  Tensor t = Tensor::empty(b, shape, dtype_of<T>, MemoryKind::boundary);
  b.upload(Queue::compute, t.view(), std::as_bytes(values));
  return t;
}

ModelStage::Microbatch ModelStage::upload(const Chunk& c, const Batch& batch) const {
  const auto samples = static_cast<std::int64_t>(batch.sample_B.size());
  const auto tokens = tokens_of(batch);
  Microbatch m;
  if (c.first()) m.ids_BT = to_device<std::int32_t>(backend_, {samples, tokens}, batch.ids_BT);
  if (c.last() && !head_does<HeadLogits>() && !head_does<HeadInputs>())
    m.targets_BT = to_device<std::int32_t>(backend_, {samples, tokens}, batch.targets_BT);
  m.sample_B = to_device<std::int64_t>(backend_, {samples}, batch.sample_B);
  if (cached() && cached()->use == Cached::Use::extend) {
    const std::vector<std::int32_t> at(cached()->at_B.begin(), cached()->at_B.end());
    m.position_BT = to_device<std::int32_t>(backend_, {samples, 1}, at);
  }
  if (model_.spec().config.experts > 0 && has_some_apart(batch))
    m.counted_RBT = to_device<std::int32_t>(backend_, {seq_.size(), samples, tokens},
                                            counted_tokens(batch, sequence_, seq_.rank()));
  const bool shares_positions = sequence_.groups() > 1, documents = !batch.start_BT.empty();
  if (m.position_BT || (!shares_positions && !documents)) return m;
  const auto all = tokens * seq_.size();
  const auto own = sequence_.every_position(seq_.rank());
  if (shares_positions) m.position_T = to_device<std::int32_t>(backend_, {tokens}, own);
  if (documents) m.start_BT = to_device<std::int32_t>(backend_, {samples, all}, batch.start_BT);
  std::vector<std::int32_t> position;
  for (std::int64_t b = 0; b < samples; ++b)
    for (const auto t : own)
      position.push_back(documents ? t - batch.start_BT[static_cast<std::size_t>(b * all + t)] : t);
  m.position_BT = to_device<std::int32_t>(backend_, {samples, tokens}, position);
  return m;
}

Run ModelStage::run_of(const Microbatch& batch, int m, const Weights& weights, Gradients* gradients,
                       const RoutingTotals* totals) const {
  PassContext pass;
  pass.phase = settings_.phase;
  pass.seed = settings_.seed;
  pass.step = settings_.step;
  pass.microbatch = m;
  pass.rows = {batch.sample_B.view(), sequence_.positions(seq_.rank())[0].begin,
               batch.position_T.view()};
  pass.targets_BT = batch.targets_BT.view();
  pass.start_BT = batch.start_BT.view();
  pass.position_BT = batch.position_BT.view();
  pass.counted_RBT = batch.counted_RBT.view();
  pass.scale = settings_.scale;
  const auto* losses = head_does<HeadLossesOfRows>();
  const auto* const taught = head_does<HeadLossOfTaught>();
  if (taught && !taught->losses.rows.empty()) losses = &taught->losses;
  if (losses) {
    pass.losses = losses->rows[static_cast<std::size_t>(m)];
    pass.loss_sums = losses->sums;
  }
  // Only the last stage has the teacher's tensors.
  if (taught && !taught->teacher.empty()) {
    pass.teacher = taught->settings;
    pass.teacher.x_BTC = taught->teacher[static_cast<std::size_t>(m)].view();
    pass.teacher.w_VC = taught->teacher.back().view();
  }
  pass.adapters = settings_.adapters;
  pass.balance_scale = settings_.balance_scale;
  pass.z_scale = settings_.z_scale;
  pass.exact_chunk = settings_.exact_chunk;
  pass.chunk_tokens = settings_.chunk_tokens;
  return {backend_, seq_,     weights, gradients,         session_.trainable(),
          pass,     cached(), totals,  settings_.experts, &sequence_};
}

// Runs the forward pass of one part. Stores what the backward pass of the part needs.
Tensor ModelStage::run_part(const Chunk& c, std::size_t i, int m, Microbatch& batch, Tensor x) {
  const Part& p = c.part(i);
  const TraceScope span(p.name(), m, Direction::forward, first_unit(p));
  const auto weights = session_.gather(p.units());
  const bool needed = c.needed(i);
  auto gradients = session_.gradients(c.early_units(i), m);
  const auto run = run_of(batch, m, weights, c.early(i) ? &gradients : nullptr, settings_.totals);
  const bool replay = needed && recompute_ == Recompute::block && p.recomputable();
  Kept k{.input = {}, .offloaded = {}, .tape = Tape(needed && !replay ? Record::on : Record::off)};
  const Tensor untouched = replay ? x : Tensor();  // a shared tensor is not overwritten
  if (replay && settings_.offload)
    k.offloaded = OffloadedTensor(backend_, x);
  else
    k.input = untouched;
  Value in = k.tape.input(std::move(x), c.input_wanted(i));
  k.leaf = in.slot;
  Value out = p.forward(k.tape, run, std::move(in));
  k.root = out.slot;
  if (c.early(i)) session_.scatter(std::move(gradients));
  if (settings_.activations)
    settings_.activations->add(Direction::forward, m, c.place(i), out.data);
  if (needed) batch.parts.push_back(std::move(k));
  return std::move(out.data);
}

// If the step can be dropped, waits until the device lags behind the host by at most one
// micro-batch.
void ModelStage::begin(int m) {
  if (!settings_.drop || dropped()) return;
  const Event queued = backend_.record(Queue::compute);
  if (m > 0) seq_.wait(backend_, before_, "the microbatch before the last");
  before_ = queued;
  if (m > 0 && settings_.drop(m)) dropped_from_ = m;
}

Tensor ModelStage::forward(int m, int chunk, Tensor x) {
  const TraceScope span(settings_.forward_name, m);
  const TaskScope task(Task::forward);
  const Chunk& c = chunk_of(chunk);
  if (leaves_out(m)) {
    for (std::size_t i = 0; i < c.size(); ++i) session_.skip(c.part(i).units(), c.early_units(i));
    return {};
  }
  Microbatch batch = upload(c, batches_[static_cast<std::size_t>(m)]);
  if (c.first()) x = batch.ids_BT;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const bool at_head = c.last() && i + 1 == c.size();
    if (const auto* const logits = head_does<HeadLogits>(); at_head && logits) {
      make_logits(c, *logits, batch, x);
      return {};
    }
    if (at_head && head_does<HeadInputs>()) {
      keep_head_input(c, m, std::move(x));
      return {};
    }
    x = run_part(c, i, m, batch, std::move(x));
  }
  batch.ids_BT = batch.targets_BT = {};
  if (!batch.parts.empty()) kept_[{m, chunk}] = std::move(batch);
  if (!c.last()) return x;
  results_[static_cast<std::size_t>(m)] = std::move(x);
  return {};
}

Tensor ModelStage::backward(int m, int chunk, Tensor dy) {
  const TraceScope span(backward_span, m);
  return run_backward({Do::backward, m, chunk}, std::move(dy));
}

Tensor ModelStage::input_gradients(int m, int chunk, Tensor dy) {
  const TraceScope span(input_span, m);
  return run_backward({Do::input_gradients, m, chunk}, std::move(dy));
}

Tensor ModelStage::run_backward(const Instruction& what, Tensor dy) {
  const TaskScope task(Task::backward);
  const int m = what.microbatch;
  const bool whole = what.what == Do::backward;
  const Chunk& c = chunk_of(what.chunk);
  const auto added = [&](std::size_t i) {
    return whole ? c.late_units(i) : std::span<const Borrow>();
  };
  if (leaves_out(m)) {
    for (std::size_t i = c.size(); i-- > 0 && c.needed(i);)
      session_.skip(c.read_backward(i), added(i));
    return {};
  }
  auto batch = std::move(kept_.at({m, what.chunk}));
  kept_.erase({m, what.chunk});
  for (std::size_t i = c.size(); i-- > 0 && c.needed(i);) {
    const Part& p = c.part(i);
    const TraceScope span_of_part(p.name(), m, Direction::backward, first_unit(p));
    Kept k = std::move(batch.parts.back());
    batch.parts.pop_back();
    const auto weights = session_.gather(c.read_backward(i));
    auto gradients = session_.gradients(added(i), m);
    LaterGradients later;
    Gradients* const now = whole ? static_cast<Gradients*>(&gradients) : &later;
    const auto run = run_of(batch, m, weights, c.late(i) ? now : nullptr);
    if (k.offloaded) {
      k.offloaded.bring_up(backend_);
      if (!batch.parts.empty()) batch.parts.back().offloaded.bring_up(backend_);  // prefetch
      k.input = k.offloaded.take(backend_);
    }
    if (k.input) {
      k.tape = Tape(Record::again);
      Value in = k.tape.input(std::move(k.input), c.input_wanted(i));
      k.leaf = in.slot;
      k.root = p.forward(k.tape, run, std::move(in)).slot;
    }
    if (whole)
      dy = std::move(k.tape).backward(run, k.root, std::move(dy), k.leaf);
    else
      dy = k.tape.input_gradients(run, k.root, std::move(dy), k.leaf);
    if (whole && c.late(i)) session_.scatter(std::move(gradients));
    if (!whole && c.late(i)) batch.later.push_back(std::move(k.tape));
    if (settings_.activations) settings_.activations->add(Direction::backward, m, c.place(i), dy);
  }
  if (!batch.later.empty()) kept_[{m, what.chunk}] = std::move(batch);
  return dy;
}

// Processes parts in the order of the first half, so that gradients are sent in that order.
void ModelStage::weight_gradients(int m, int chunk) {
  const TraceScope span(weight_span, m);
  const TaskScope task(Task::backward);
  const Chunk& c = chunk_of(chunk);
  if (leaves_out(m)) {
    for (std::size_t i = c.size(); i-- > 0 && c.needed(i);) session_.skip({}, c.late_units(i));
    return;
  }
  const auto it = kept_.find({m, chunk});
  if (it == kept_.end()) return;  // no weight gradients in this chunk
  auto batch = std::move(it->second);
  kept_.erase(it);
  std::ranges::reverse(batch.later);
  for (std::size_t i = c.size(); i-- > 0 && c.needed(i);) {
    if (!c.late(i)) continue;
    const Part& p = c.part(i);
    const TraceScope span_of_part(p.name(), m, Direction::backward, first_unit(p));
    Tape tape = std::move(batch.later.back());
    batch.later.pop_back();
    const auto weights = session_.gather({});
    auto gradients = session_.gradients(p.units(), m);
    std::move(tape).weight_gradients(run_of(batch, m, weights, &gradients));
    session_.scatter(std::move(gradients));
  }
}

// Keeps the head's input of each micro-batch and one copy of the head's weights. Borrowed weights
// are returned after each micro-batch, so they must be copied.
void ModelStage::keep_head_input(const Chunk& c, int m, Tensor x_BTC) {
  const auto weights = session_.gather(c.part(c.size() - 1).units());
  results_[static_cast<std::size_t>(m)] = std::move(x_BTC);
  if (results_.back()) return;
  const auto& head = model_.head();
  expect(!head.has_adapter(), "a teacher's head has no adapter");
  const ConstView w_VC = weights[head.weight()];
  results_.back() =
      Tensor::empty(backend_, {w_VC.extent[0], w_VC.extent[1]}, w_VC.dtype, MemoryKind::gathered);
  backend_.put(Queue::compute, kernel::Copy{.dst = results_.back().view(), .src = w_VC});
}

void ModelStage::make_logits(const Chunk& c, const HeadLogits& logits, const Microbatch& batch,
                             const Tensor& x_BTC) {
  const auto weights = session_.gather(c.part(c.size() - 1).units());
  if (!logits.at) return;
  const auto width = x_BTC.shape()[2], rows = x_BTC.shape()[0];
  const ConstView row = logits.cached && logits.cached->use == Cached::Use::extend
                            ? x_BTC.view().reshaped({rows, width})
                            : x_BTC.slice(*logits.at * width, {1, width}).view();
  results_[0] = model_.head().logits(run_of(batch, 0, weights, nullptr), row);
}

}  // namespace trireme
