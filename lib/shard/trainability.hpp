#pragma once
// Which parameters are trained. A change is a wish until it is settled, for whole segments at a
// time.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/shard/config.hpp"
#include "lib/shard/layout.hpp"

namespace trireme {

class Trainability {
 public:
  // `wanted` by ParamId; nothing is trained before the first settle().
  Trainability(const ModelSpec&, const Layout&, std::vector<std::uint8_t> wanted);

  // `moments`: what becomes of those of a parameter that freezes.
  void wish(ParamId, bool trained, ThawMoments moments);

  // Do the wishes want something else, on whichever stage?
  bool differs() const { return wanted_ != trained_; }
  // A segment that starts or stops being trained.
  struct Change {
    std::size_t segment;
    bool trained;
    ThawMoments moments;  // of one that freezes
  };
  // What settle() would return. Error, naming it, when a wish would split a segment.
  std::vector<Change> changes() const;
  // The wishes are what is from now on.
  void settle();
  // Error naming the parameters whose wish is not settled; compares version numbers alone.
  void require_settled() const;

  std::span<const std::uint8_t> trained() const { return trained_; }  // by ParamId
  bool trains(const Segment& s) const { return trained_[s.slots[0].param.index()] != 0; }

 private:
  const ModelSpec& spec_;
  const Layout& layout_;
  std::vector<std::uint8_t> trained_, wanted_;  // by ParamId
  std::vector<ThawMoments> moments_;            // by ParamId, of wishes
  std::int64_t version_ = 0, settled_ = 0;
};

}  // namespace trireme
