#include "lib/shard/trainability.hpp"

#include <string>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

Trainability::Trainability(const ModelSpec& spec, const Layout& layout,
                           std::vector<std::uint8_t> wanted)
    : spec_(spec),
      layout_(layout),
      trained_(spec.params.size(), 0),
      wanted_(std::move(wanted)),
      moments_(spec.params.size(), ThawMoments::fresh) {
  expect(wanted_.size() == spec.params.size(), "a mask has an entry for each parameter");
}

void Trainability::request(ParamId p, bool trained, ThawMoments moments) {
  auto& wanted = wanted_[p.index()];
  const auto value = static_cast<std::uint8_t>(trained);
  if (!trained) moments_[p.index()] = moments;
  if (wanted == value) return;
  wanted = value;
  ++version_;
}

std::vector<Trainability::Change> Trainability::changes() const {
  std::vector<Change> all;
  if (!differs()) return all;
  for (const auto& segment : layout_.segments)
    for (const auto& slot : segment.slots)
      require(wanted_[slot.param.index()] == wanted_[segment.slots[0].param.index()],
              "{} cannot freeze or thaw without {}: they lie in one segment. Name the pattern that "
              "separates them in a [[freeze]] table, or when the model is made",
              spec_.params[slot.param.index()].name,
              spec_.params[segment.slots[0].param.index()].name);
  for (std::size_t i = 0; i < layout_.segments.size(); ++i) {
    const auto first = layout_.segments[i].slots[0].param.index();
    if (wanted_[first] != trained_[first]) all.push_back({i, wanted_[first] != 0, moments_[first]});
  }
  return all;
}

void Trainability::apply() {
  trained_ = wanted_;
  applied_ = version_;
}

void Trainability::require_applied() const {
  if (applied_ == version_) return;
  std::string names;
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    if (wanted_[i] != trained_[i]) names += (names.empty() ? "" : ", ") + spec_.params[i].name;
  require(names.empty(),
          "the trainability of {} changed and was not refreshed: call apply_trainable(), or set "
          "zero.detect_freeze = true",
          names);
}

}  // namespace trireme
