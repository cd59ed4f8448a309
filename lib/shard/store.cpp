#include "lib/shard/store.hpp"

#include <string>
#include <utility>

namespace trireme {

static std::vector<std::string> arrays_of(Upkeep u) {
  if (u == Upkeep::adamw) return {"moment1", "moment2"};
  return {};
}

static std::vector<std::uint8_t> wanted_first(const ModelSpec& spec, Upkeep upkeep,
                                              std::vector<std::uint8_t> trainable) {
  if (trainable.empty()) trainable.assign(spec.params.size(), 1);
  if (upkeep == Upkeep::forward) trainable.assign(spec.params.size(), 0);
  return trainable;
}

Store::Store(Backend& b, const ModelSpec& spec, Layout layout, DType compute, Upkeep upkeep,
             Sharding sharding, std::vector<std::uint8_t> trainable)
    : backend_(b),
      spec_(spec),
      layout_(std::move(layout)),
      sharding_(std::move(sharding)),
      upkeep_(upkeep),
      shards_(b, spec, layout_, sharding_, compute, arrays_of(upkeep)),
      gradients_(b, spec, layout_, sharding_, wide(compute)),
      trainability_(spec, layout_, wanted_first(spec, upkeep, std::move(trainable))) {
  settle_trainable();
}

bool Store::speaks_for(ParamId p) const {
  const auto& where = layout_.of_param[p.index()];
  return where && sharding_.speaks_for(layout_.segments[where->segment]);
}

void Store::make_arrays(ParamId p) {
  if (const auto& where = layout_.of_param[p.index()]) shards_.make_arrays(where->segment);
}

static constexpr const char* no_gradients =
    "the model was opened without gradients: it can be evaluated, not trained";

void Store::set_trainable(ParamId p, bool on, ThawMoments moments) {
  require(upkeep_ != Upkeep::forward, "{}", no_gradients);
  trainability_.wish(p, on, moments);
}

bool Store::settle_trainable() {
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
  trainability_.settle();
  return differs;
}

void Store::begin(Purpose purpose) {
  require(!open_, "the model's state is in use by another session: close that first");
  require(purpose == Purpose::forward || upkeep_ != Upkeep::forward, "{}", no_gradients);
  if (const auto left = sharding_.gather.abandoned(); !left.empty())
    fail("something of an earlier program is still on its way: {}", fmt::join(left, ", "));
  trainability_.require_settled();
  open_ = true;
  if (purpose == Purpose::forward) return;
  gradients_.start();
  pending_ = true;
}

// Each trained segment's decayed and undecayed range, as far as it is here: (views, gradient,
// count, decay).
template <class Update>
void Store::each_range(double decay, const Update& update) {
  for (std::size_t i = 0; i < layout_.segments.size(); ++i) {
    const auto& segment = layout_.segments[i];
    if (!trainability_.trains(segment)) continue;
    const auto count = ++shards_.count_of(i);
    const auto mine = sharding_.own(segment);
    const auto run = [&](Range wanted, double range_decay) {
      const auto r = intersection(wanted, mine);
      if (r.count() == 0) return;
      const ConstView gradient = gradients_.sum(i).slice(r.begin - mine.begin, {r.count()}).view();
      update(shards_.views(i, r), gradient, count, range_decay);
    };
    run({0, segment.decayed}, decay);
    run({segment.decayed, segment.elements}, 0);
  }
  pending_ = false;
}

void Store::update(const AdamWFactors& a) {
  kernel::AdamW step;
  each_range(a.decay, [&](const ShardViews& s, ConstView gradient, auto count, double decay) {
    AdamWFactors here = a;
    here.decay = decay;
    here.count = count;
    step.shards.push_back({.master_N = s.master,
                           .m_N = s.arrays[0],
                           .v_N = s.arrays[1],
                           .copy_N = s.copy,
                           .grad_N = gradient,
                           .factors = here});
  });
  backend_.put(Queue::compute, step);
}

void Store::update(const SgdFactors& a) {
  kernel::Sgd step;
  each_range(a.decay, [&](const ShardViews& s, ConstView gradient, auto, double decay) {
    SgdFactors here = a;
    here.decay = decay;
    step.shards.push_back(
        {.master_N = s.master, .copy_N = s.copy, .grad_N = gradient, .factors = here});
  });
  backend_.put(Queue::compute, step);
}

}  // namespace trireme
