#pragma once
// Which parameters are trained. A change is a request until it is applied, for whole segments at a
// time.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/shard/config.hpp"
#include "lib/shard/layout.hpp"

namespace trireme {

class Trainability {
 public:
  // `requested` by ParamId; nothing is trained before the first apply().
  Trainability(const ModelSpec&, const Layout&, std::vector<std::uint8_t> requested);

  // `moments`: what becomes of those of a parameter that freezes.
  void request(ParamId, bool trained, ThawMoments moments);

  // Do the requests want something else, on whichever stage?
  bool differs() const { return requested_ != trained_; }
  // A segment that starts or stops being trained.
  struct Change {
    std::size_t segment;
    bool trained;
    ThawMoments moments;  // of one that freezes
  };
  // What apply() would return. Error, naming it, when a request would split a segment.
  std::vector<Change> changes() const;
  // From now on what was requested is what is trained.
  void apply();
  // Error naming the parameters whose request is not applied; compares version numbers alone.
  void require_applied() const;

  std::span<const std::uint8_t> trained() const { return trained_; }  // by ParamId
  bool trains(const Segment& s) const { return trained_[s.slots[0].param.index()] != 0; }

 private:
  const ModelSpec& spec_;
  const Layout& layout_;
  std::vector<std::uint8_t> trained_, requested_;  // by ParamId
  std::vector<ThawMoments> moments_;               // by ParamId, of requests
  std::int64_t version_ = 0, applied_ = 0;
};

}  // namespace trireme
