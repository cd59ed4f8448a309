#include "lib/train/stage.hpp"

#include <algorithm>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/ops/key_values.hpp"

namespace trireme {

namespace {

// One call's work as a graph, where that is wanted.
class GraphScope {
 public:
  GraphScope(Backend& b, bool wanted, std::uint64_t which) : backend_(wanted ? &b : nullptr) {
    if (backend_) backend_->begin_graph(which);
  }
  ~GraphScope() {
    if (backend_) backend_->drop_graph();
  }
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;
  void end() {
    if (auto* const b = std::exchange(backend_, nullptr)) b->end_graph();
  }

 private:
  Backend* backend_;
};

}  // namespace

PartRange stage_parts(std::span<const std::int64_t> blocks, std::size_t stage) {
  std::size_t begin = 1;  // behind the embedding
  for (std::size_t s = 0; s < stage; ++s) begin += static_cast<std::size_t>(blocks[s]);
  const auto end = begin + static_cast<std::size_t>(blocks[stage]);
  return {stage == 0 ? 0 : begin, stage + 1 == blocks.size() ? end + 2 : end};
}

static std::span<const std::unique_ptr<Part>> parts_of(const Model& model, PartRange r) {
  return model.parts().subspan(r.begin, r.end - r.begin);
}

std::vector<UnitId> units_of(const Model& model, PartRange range) {
  std::vector<UnitId> units;
  for (const auto& part : parts_of(model, range))
    for (const auto& b : part->units())
      if (std::ranges::find(units, b.unit) == units.end()) units.push_back(b.unit);
  return units;
}

static bool trains_any(const ModelSpec& spec, const Part& part,
                       std::span<const std::uint8_t> trainable) {
  for (std::size_t i = 0; i < spec.params.size(); ++i)
    if (trainable[i] &&
        std::ranges::find(part.units(), spec.params[i].unit, &Borrow::unit) != part.units().end())
      return true;
  return false;
}

BackwardParts backward_parts(const Model& model, PartRange range,
                             std::span<const std::uint8_t> trainable, bool input_wanted) {
  BackwardParts b{{}, {}, input_wanted};
  bool flows = input_wanted;
  for (const auto& part : parts_of(model, range)) {
    b.trains.push_back(trains_any(model.spec(), *part, trainable));
    flows = flows || b.trains.back();
    b.needed.push_back(flows);
  }
  return b;
}

std::vector<Visit> visits(const Program& program, const Model& model, PartRange range,
                          const BackwardParts& backward) {
  const auto parts = parts_of(model, range);
  const auto& [trains, needed, input] = backward;
  std::vector<Visit> all;
  for (const auto& [what, m, chunk] : program) {
    if (what == Do::forward)
      for (std::size_t i = 0; i < parts.size(); ++i)
        all.push_back({parts[i]->units(), m, true,
                       trains[i] && parts[i]->gradients_in() == GradientsIn::forward});
    if (what == Do::backward)
      for (std::size_t i = parts.size(); i-- > 0 && needed[i];)
        all.push_back({parts[i]->units(), m, parts[i]->backward_reads() == BackwardReads::weights,
                       trains[i] && parts[i]->gradients_in() == GradientsIn::backward});
  }
  return all;
}

ModelStage::ModelStage(const Model& model, PartRange range, Session& session, Backend& backend,
                       const Communicator& seq, std::span<const Batch> microbatches,
                       BackwardParts backward, Recompute recompute, When when)
    : model_(model),
      range_(range),
      session_(session),
      backend_(backend),
      seq_(seq),
      batches_(microbatches),
      backward_(std::move(backward)),
      recompute_(recompute),
      when_(std::move(when)),
      dropped_from_(static_cast<int>(microbatches.size())),
      results_(last() ? microbatches.size() : 0) {}

static std::int64_t tokens_of(const Batch& b) {
  return static_cast<std::int64_t>(b.ids_BT.size() / b.sample_B.size());
}

Boundary ModelStage::boundary() const {
  const auto samples = static_cast<std::int64_t>(batches_[0].sample_B.size());
  return {{samples, tokens_of(batches_[0]), model_.spec().config.width}, model_.compute()};
}

template <class T>
static Tensor to_device(Backend& b, const Shape& shape, std::span<const T> values) {
  Tensor t = Tensor::empty(b, shape, dtype_of<T>, Kind::boundary);
  b.upload(Queue::compute, t.view(), std::as_bytes(values));
  return t;
}

ModelStage::Microbatch ModelStage::upload(const Batch& batch) const {
  const auto samples = static_cast<std::int64_t>(batch.sample_B.size());
  const auto tokens = tokens_of(batch);
  Microbatch m;
  if (first()) m.ids_BT = to_device<std::int32_t>(backend_, {samples, tokens}, batch.ids_BT);
  if (last() && !when_.logits)
    m.targets_BT = to_device<std::int32_t>(backend_, {samples, tokens}, batch.targets_BT);
  m.sample_B = to_device<std::int64_t>(backend_, {samples}, batch.sample_B);
  if (when_.cached && when_.cached->use == Cached::Use::extend) {
    const std::vector<std::int32_t> at(when_.cached->at_B.begin(), when_.cached->at_B.end());
    m.position_BT = to_device<std::int32_t>(backend_, {samples, 1}, at);
  }
  if (batch.start_BT.empty()) return m;
  const auto all = tokens * seq_.size(), begin = tokens * seq_.rank();
  m.start_BT = to_device<std::int32_t>(backend_, {samples, all}, batch.start_BT);
  std::vector<std::int32_t> position;
  for (std::int64_t b = 0; b < samples; ++b)
    for (auto t = begin; t < begin + tokens; ++t)
      position.push_back(static_cast<std::int32_t>(t) -
                         batch.start_BT[static_cast<std::size_t>(b * all + t)]);
  m.position_BT = to_device<std::int32_t>(backend_, {samples, tokens}, position);
  return m;
}

Run ModelStage::run_of(const Microbatch& batch, int m, const Weights& weights,
                       Gradients* gradients) const {
  Place place;
  place.phase = when_.phase;
  place.seed = when_.seed;
  place.step = when_.step;
  place.microbatch = m;
  place.rows = {batch.sample_B.view(), seq_.rank() * boundary().shape[1]};
  place.targets_BT = batch.targets_BT.view();
  place.start_BT = batch.start_BT.view();
  place.position_BT = batch.position_BT.view();
  place.scale = when_.scale;
  place.exact_chunk = when_.exact_chunk;
  return {backend_, seq_, weights, gradients, session_.trainable(), place, when_.cached};
}

// The first microbatch of a step overwrites sums where others add; what is frozen adds none.
std::uint64_t ModelStage::graph_of(Direction d, int m) const {
  auto which = hash64(static_cast<std::uint64_t>(d), m == 0 ? 1 : 0, 0);
  for (const auto trains : backward_.trains) which = hash64(which, trains, 0);
  return which;
}

// Forward of one part; what its backward needs is kept.
Tensor ModelStage::run_part(std::size_t i, int m, Microbatch& batch, Tensor x) {
  const Part& p = part(i);
  const TraceScope span(p.name(), m, Direction::forward, first_unit(p));
  const auto weights = session_.gather(p.units());
  const bool needed = backward_.needed[i];
  auto gradients = session_.gradients(early(i) ? p.units() : std::span<const Borrow>(), m);
  const auto run = run_of(batch, m, weights, early(i) ? &gradients : nullptr);
  const bool replay = needed && recompute_ == Recompute::block && p.recomputable();
  Kept k{{}, Tape(needed && !replay ? Record::on : Record::off), -1, -1};
  if (replay) k.input = x;
  Value in = k.tape.input(std::move(x), input_wanted(i));
  k.leaf = in.slot;
  Value out = p.forward(k.tape, run, std::move(in));
  k.root = out.slot;
  if (early(i)) session_.scatter(std::move(gradients));
  if (when_.trail) when_.trail->add(Direction::forward, m, range_.begin + i, out.data);
  if (needed) batch.parts.push_back(std::move(k));
  return std::move(out.data);
}

// A device lags behind what is queued for it: by at most a microbatch where that can be dropped.
void ModelStage::begin(int m) {
  if (!when_.drop || dropped()) return;
  const Event queued = backend_.record(Queue::compute);
  if (m > 0) seq_.wait(backend_, before_, "the microbatch before the last");
  before_ = queued;
  if (m > 0 && when_.drop(m)) dropped_from_ = m;
}

Tensor ModelStage::forward(int m, Tensor x) {
  const TraceScope span(forward_span, m);
  const TaskScope task(Task::forward);
  if (leaves_out(m)) {
    for (std::size_t i = 0; i < range_.end - range_.begin; ++i)
      session_.skip(part(i).units(), early(i) ? part(i).units() : std::span<const Borrow>());
    return {};
  }
  Microbatch batch = upload(batches_[static_cast<std::size_t>(m)]);
  GraphScope graph(backend_, when_.graphs && !when_.logits, graph_of(Direction::forward, m));
  if (first()) x = batch.ids_BT;
  const auto count = range_.end - range_.begin;
  for (std::size_t i = 0; i < count; ++i) {
    if (last() && when_.logits && i + 1 == count) {
      make_logits(batch, x);
      return {};
    }
    x = run_part(i, m, batch, std::move(x));
  }
  graph.end();
  batch.ids_BT = batch.targets_BT = {};
  if (!batch.parts.empty()) kept_[m] = std::move(batch);
  if (!last()) return x;
  results_[static_cast<std::size_t>(m)] = std::move(x);
  return {};
}

Tensor ModelStage::backward(int m, Tensor dy) {
  const TraceScope span(backward_span, m);
  const TaskScope task(Task::backward);
  if (leaves_out(m)) {
    for (std::size_t i = range_.end - range_.begin; i-- > 0 && backward_.needed[i];)
      session_.skip(read_backward(i), late(i) ? part(i).units() : std::span<const Borrow>());
    return {};
  }
  auto batch = std::move(kept_.at(m));
  kept_.erase(m);
  GraphScope graph(backend_, when_.graphs, graph_of(Direction::backward, m));
  for (std::size_t i = range_.end - range_.begin; i-- > 0 && backward_.needed[i];) {
    const Part& p = part(i);
    const TraceScope span_of_part(p.name(), m, Direction::backward, first_unit(p));
    Kept k = std::move(batch.parts.back());
    batch.parts.pop_back();
    const auto weights = session_.gather(read_backward(i));
    auto gradients = session_.gradients(late(i) ? p.units() : std::span<const Borrow>(), m);
    const auto run = run_of(batch, m, weights, late(i) ? &gradients : nullptr);
    if (k.input) {
      k.tape = Tape(Record::on);
      Value in = k.tape.input(std::move(k.input), input_wanted(i));
      k.leaf = in.slot;
      k.root = p.forward(k.tape, run, std::move(in)).slot;
    }
    dy = std::move(k.tape).backward(run, k.root, std::move(dy), k.leaf);
    if (late(i)) session_.scatter(std::move(gradients));
    if (when_.trail) when_.trail->add(Direction::backward, m, range_.begin + i, dy);
  }
  graph.end();
  return dy;
}

void ModelStage::make_logits(const Microbatch& batch, const Tensor& x_BTC) {
  const auto weights = session_.gather(part(range_.end - range_.begin - 1).units());
  if (!when_.logits_at) return;
  const auto width = x_BTC.shape()[2], rows = x_BTC.shape()[0];
  const ConstView row = when_.cached && when_.cached->use == Cached::Use::extend
                            ? x_BTC.view().reshaped({rows, width})
                            : x_BTC.slice(*when_.logits_at * width, {1, width}).view();
  results_[0] = model_.head().logits(run_of(batch, 0, weights, nullptr), row);
}

}  // namespace trireme
