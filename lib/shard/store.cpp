#include "lib/shard/store.hpp"

#include <string>
#include <utility>

namespace trireme {

static std::vector<std::uint8_t> wanted_first(const ModelSpec& spec, bool can_train,
                                              std::vector<std::uint8_t> trainable) {
  if (trainable.empty()) trainable.assign(spec.params.size(), 1);
  if (!can_train) trainable.assign(spec.params.size(), 0);
  for (std::size_t i = 0; i < trainable.size(); ++i)
    if (spec.params[i].learns_from != LearnsFrom::gradients) trainable[i] = 0;
  return trainable;
}

Store::Store(Backend& b, const ModelSpec& spec, Layout layout, DType compute,
             std::optional<OptimizerRules> rules, Sharding sharding,
             std::vector<std::uint8_t> trainable, std::int64_t exact_chunk)
    : backend_(b),
      spec_(spec),
      layout_(std::move(layout)),
      sharding_(std::move(sharding)),
      rules_(std::move(rules)),
      shards_(b, spec, layout_, sharding_, compute, rules_),
      gradients_(b, spec, layout_, sharding_, wide(compute), rules_ ? exact_chunk : 0),
      trainability_(spec, layout_, wanted_first(spec, rules_.has_value(), std::move(trainable))),
      matrices_({b, spec, layout_, sharding_, shards_, gradients_},
                rules_ ? rules_->matrices : std::nullopt, exact_chunk > 0) {
  apply_trainable();
}

bool Store::reports(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where && sharding_.reports(layout_.segments[where->segment]);
}

void Store::make_arrays(ParamId p) {
  const auto& where = layout_.of_param[p.index()];
  if (where && spec_.params[p.index()].learns_from == LearnsFrom::gradients)
    shards_.make_arrays(where->segment);
}

static constexpr const char* no_gradients =
    "the model was opened without gradients: it can be evaluated, not trained";

void Store::set_trainable(ParamId p, bool on, ThawMoments moments) {
  require(rules_.has_value(), "{}", no_gradients);
  if (spec_.params[p.index()].learns_from == LearnsFrom::gradients)
    trainability_.request(p, on, moments);
}

bool Store::apply_trainable() {
  const bool differs = trainability_.differs();
  if (differs) {
    require(!pending_,
            "parameters were frozen or thawed between backward and update: update first, or "
            "discard the gradients");
    require(!open_, "parameters cannot be frozen or thawed while a program borrows the model");
  }
  for (const auto& [segment, trained, moments] : trainability_.changes()) {
    if (trained) {
      gradients_.hold(segment);
      shards_.make_arrays(segment);
      continue;
    }
    gradients_.drop(segment);
    if (moments == ThawMoments::fresh) shards_.drop_arrays(segment);
  }
  trainability_.apply();
  return differs;
}

void Store::begin(Purpose purpose) {
  require(!open_, "the model's state is in use by another session: close that first");
  require(purpose == Purpose::forward || rules_.has_value(), "{}", no_gradients);
  if (const auto left = sharding_.stage.gather.abandoned(); !left.empty())
    fail("work of an earlier program is still in flight: {}", fmt::join(left, ", "));
  trainability_.require_applied();
  if (purpose == Purpose::train) {
    gradients_.start();
    pending_ = true;
  }
  open_ = true;
}

// Settings of an update that may differ between parameters.
struct UpdateKind {
  bool decays;
  std::int64_t count;  // number of updates, including this one
  double lr_factor;
  bool operator==(const UpdateKind&) const = default;
};

// Consecutive elements of a segment whose updates are of the same kind.
struct UpdateSlice {
  Range range;
  UpdateKind kind;
};

// Returns the slices of the parameters that are updated element by element.
static std::vector<UpdateSlice> update_slices(const Segment& segment, const ModelSpec& spec,
                                              const Shards& shards) {
  std::vector<UpdateSlice> all;
  for (const auto& slot : segment.slots) {
    if (slot.begin >= segment.matrices_begin) break;
    const UpdateKind kind{slot.decays, shards.count(slot.param) + 1,
                          spec.params[slot.param.index()].lr_factor};
    if (all.empty() || all.back().kind != kind) {
      if (!all.empty()) all.back().range.end = slot.begin;
      all.push_back({{slot.begin, segment.matrices_begin}, kind});
    }
  }
  return all;
}

void Store::update(UpdateFactors factors) {
  require(rules_.has_value(), "{}", no_gradients);
  kernel::Update step{.rule = rules_->elements, .shards = {}};
  for (std::size_t i = 0; i < layout_.segments.size(); ++i) {
    const auto& segment = layout_.segments[i];
    if (!trainability_.trains(segment)) continue;
    const auto mine = sharding_.own(segment);
    for (const auto& slice : update_slices(segment, spec_, shards_)) {
      const auto r = intersection(slice.range, mine);
      if (r.count() == 0) continue;
      auto [master, copy, arrays, names] = shards_.views(i, r);
      arrays.resize(arrays_of(rules_->elements).size());  // without averages
      auto& shard = step.shards.emplace_back(kernel::Update::Shard{
          .master_N = master,
          .copy_N = copy,
          .grad_N = gradients_.sum(i).slice(r.begin - mine.begin, {r.count()}).view(),
          .state_N = std::move(arrays),
          .factors = factors});
      shard.factors.lr *= slice.kind.lr_factor * rules_->lr_factor;
      shard.factors.decay = slice.kind.decays ? rules_->decay.value_or(factors.decay) : 0;
      shard.factors.count = slice.kind.count;
    }
  }
  if (!step.shards.empty()) backend_.put(Queue::compute, step);
  for (const auto& segment : layout_.segments)
    if (trainability_.trains(segment))
      for (const auto& slot : segment.slots)
        shards_.set_count(slot.param, shards_.count(slot.param) + 1);
  matrices_.update(factors, trainability_);
  if (averages()) move_averages();
  pending_ = false;
}

void Store::move_averages() {
  kernel::Average step{.share = 1 - rules_->average_decay, .shards = {}};
  for (std::size_t i = 0; i < layout_.segments.size(); ++i) {
    const auto& segment = layout_.segments[i];
    const auto mine = sharding_.own(segment);
    if (mine.count() == 0 || !has_arrays(segment.slots[0].param)) continue;
    const auto [master, copy, arrays, names] = shards_.views(i, mine);
    step.shards.push_back({.average_N = arrays.back(), .x_N = master});
  }
  if (!step.shards.empty()) backend_.put(Queue::compute, step);
}

}  // namespace trireme
