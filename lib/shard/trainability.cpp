#include "lib/shard/trainability.hpp"

#include <string>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

Trainability::Trainability(const ModelSpec& spec, const Layout& layout,
                           std::vector<std::uint8_t> requested)
    : spec_(spec),
      layout_(layout),
      trained_(spec.params.size(), 0),
      requested_(std::move(requested)),
      moments_(spec.params.size(), ThawMoments::fresh) {
  expect(requested_.size() == spec.params.size(), "a mask has an entry for each parameter");
}

void Trainability::request(ParamId p, bool trained, ThawMoments moments) {
  auto& requested = requested_[p.index()];
  const auto value = static_cast<std::uint8_t>(trained);
  if (!trained) moments_[p.index()] = moments;
  if (requested == value) return;
  requested = value;
  ++version_;
}

std::vector<Trainability::Change> Trainability::changes() const {
  std::vector<Change> all;
  if (!differs()) return all;
  for (const auto& segment : layout_.segments)
    for (const auto& slot : segment.slots)
      require(requested_[slot.param.index()] == requested_[segment.slots[0].param.index()],
              "{} cannot freeze or thaw without {}: they are in the same segment. Give a pattern "
              "that separates them in a [[freeze]] table, or when the model is created",
              spec_.params[slot.param.index()].name,
              spec_.params[segment.slots[0].param.index()].name);
  for (std::size_t i = 0; i < layout_.segments.size(); ++i) {
    const auto first = layout_.segments[i].slots[0].param.index();
    if (requested_[first] != trained_[first])
      all.push_back({i, requested_[first] != 0, moments_[first]});
  }
  return all;
}

void Trainability::apply() {
  trained_ = requested_;
  applied_ = version_;
}

void Trainability::require_applied() const {
  if (applied_ == version_) return;
  std::string names;
  for (std::size_t i = 0; i < requested_.size(); ++i)
    if (requested_[i] != trained_[i]) names += (names.empty() ? "" : ", ") + spec_.params[i].name;
  require(names.empty(),
          "the trainability of {} changed, but the change was not applied: call apply_trainable(), "
          "or set zero.detect_freeze = true",
          names);
}

}  // namespace trireme
