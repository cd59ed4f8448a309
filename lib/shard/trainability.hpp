#pragma once
// Trainability records which parameters are trained. A change is only a request until apply() makes
// it effective. Changes apply to whole segments.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/shard/config.hpp"
#include "lib/shard/layout.hpp"

namespace trireme {

// Which parameters are trained, and which changes have been requested.
class Trainability {
 public:
  // `requested` is indexed by ParamId. No parameter is trained before the first apply().
  Trainability(const ModelSpec&, const Layout&, std::vector<std::uint8_t> requested);

  // Requests that a parameter be trained or frozen. `moments` says whether a frozen parameter keeps
  // its moments.
  void request(ParamId, bool trained, ThawMoments moments);

  // Returns true if a request for any parameter, of this or another stage, differs from the current
  // state.
  bool differs() const { return requested_ != trained_; }
  // A segment that starts or stops being trained.
  struct Change {
    std::size_t segment;
    bool trained;
    ThawMoments moments;  // used if the segment freezes
  };
  // Returns the changes that apply() would make. Throws Error, naming a parameter, if a request
  // would split a segment.
  std::vector<Change> changes() const;
  // Makes all requests effective.
  void apply();
  // Throws Error, naming the parameters, if any requests have not been applied. If there are none,
  // the call costs one comparison.
  void require_applied() const;

  std::span<const std::uint8_t> trained() const { return trained_; }  // returns the mask by ParamId
  // Returns true if the segment is trained.
  bool trains(const Segment& s) const { return trained_[s.slots[0].param.index()] != 0; }

 private:
  const ModelSpec& spec_;
  const Layout& layout_;
  std::vector<std::uint8_t> trained_, requested_;  // indexed by ParamId
  std::vector<ThawMoments> moments_;               // of requests, indexed by ParamId
  std::int64_t version_ = 0, applied_ = 0;
};

}  // namespace trireme
