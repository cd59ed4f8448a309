// Which parameters of a store are trained, and what is kept for them.
#include <algorithm>

#include "lib/shard/store.hpp"

namespace trireme {

void Store::set_trainable(ParamId p, bool on, ThawMoments thaw) {
  require(upkeep_ != Upkeep::forward,
          "the model was opened without gradients: it can be evaluated, not trained");
  auto& wanted = wanted_[p.index()];
  const auto value = static_cast<std::uint8_t>(on);
  if (!on) thaw_[p.index()] = thaw;
  if (wanted == value) return;
  wanted = value;
  ++version_;
}

// Gradient buffers and moments of a segment that is trained from now on.
void Store::hold_training_state(std::size_t i) {
  const auto& segment = layout_.segments[i];
  auto& s = shards_[i];
  const auto n = own(segment).count();
  const std::size_t uses = is_tied(segment) ? 2 : 1;
  for (std::size_t use = 0; use < uses; ++use)
    s.gradient[use] = std::make_shared<GradientBuffer>(GradientBuffer{
        zeros(n, Kind::gradients), std::vector<std::uint8_t>(segment.slots.size(), 0)});
  if (!keeps_moments() || s.moment1) return;
  s.moment1 = zeros(n, Kind::optimizer);
  s.moment2 = zeros(n, Kind::optimizer);
  s.count = 0;
}

bool Store::settle_trainable() {
  if (wanted_ == trainable_) {
    settled_ = version_;
    return false;
  }
  require(!pending_,
          "parameters were frozen or thawed between backward and update: update first, or "
          "discard the gradients");
  require(!open_, "parameters cannot be frozen or thawed while a program borrows the model");
  for (const auto& segment : layout_.segments)
    for (const auto& slot : segment.slots)
      require(wanted_[slot.param.index()] == wanted_[segment.slots[0].param.index()],
              "{} cannot freeze or thaw without {}: they lie in one segment. Name the pattern that "
              "parts them in a [[freeze]] table, or when the model is made",
              spec_.params[slot.param.index()].name,
              spec_.params[segment.slots[0].param.index()].name);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto first = layout_.segments[i].slots[0].param.index();
    auto& s = shards_[i];
    const bool on = wanted_[first];
    if (on == s.trainable) continue;
    s.trainable = on;
    if (on) {
      hold_training_state(i);
      continue;
    }
    s.gradient = {};
    if (thaw_[first] == ThawMoments::keep) continue;
    s.moment1 = s.moment2 = {};
    s.count = 0;
  }
  trainable_ = wanted_;
  settled_ = version_;
  return true;
}

void Store::require_settled() const {
  if (settled_ == version_) return;
  std::string names;
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    if (wanted_[i] != trainable_[i]) names += (names.empty() ? "" : ", ") + spec_.params[i].name;
  require(names.empty(),
          "the trainability of {} changed and was not refreshed: call settle_trainable(), or set "
          "zero.detect_freeze = true",
          names);
}

}  // namespace trireme
