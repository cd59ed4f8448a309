#pragma once
// A backend without memory or arithmetic, for planning. It keeps the same account as the backend
// that it plans for and counts floating-point operations. It also checks that any two accesses to
// the same bytes, one of them a write, are ordered by queues and events (vector clocks: Mattern
// 1989). Downloads return 1 for f64 and 0 for all other types, so that norms and losses are finite
// and no step is skipped.
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/arena.hpp"
#include "kernels/backend.hpp"
#include "kernels/dry/accesses.hpp"

namespace trireme {

// Properties of the backend that the dry backend plans for.
struct DryTarget {
  BackendProperties properties;
  std::size_t capacity;  // bytes of device memory
  std::function<AttentionBytes(const AttentionShape&, DType, Direction)> attention_bytes;
  bool order = true;  // check the order of accesses, which takes most of the time
};

// Backend that counts memory, operations and accesses, but computes nothing.
class Dry : public Backend {
 public:
  explicit Dry(DryTarget);

  // Returns messages about the first few races: pairs of accesses that are not ordered.
  const std::vector<std::string>& races() const { return accesses_.races(); }
  // Returns the total number of races.
  std::int64_t race_count() const { return accesses_.race_count(); }
  // Returns the number of floating-point operations so far in matrix products and attention.
  double flops() const { return flops_; }

  const BackendProperties& properties() const override { return properties_; }
  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape& s, DType t, Direction d) const override {
    return target_.attention_bytes(s, t, d);
  }
  Block take(std::size_t bytes, MemoryKind, Queue first, Memory) override;
  void give(const Block&, std::span<const Event> last) noexcept override;
  const Account& account() const override { return arena_.account(); }
  void lend_workspace(View v) override { scratch_ = v; }
  Event record(Queue q) override { return accesses_.record(q); }
  void wait(Queue q, Event e) override { accesses_.wait(q, e); }
  bool done(Event) override { return true; }
  void* native(Queue) override { return nullptr; }
  bool keeps_values() const override { return false; }
  void upload(Queue, View dst, std::span<const std::byte>) override;
  void download(Queue, std::span<std::byte>, ConstView src) override;
  void touched(Queue, ConstView read, View written) override;

 private:
  // Begins an operation. The accesses that follow belong to it. The string `what` must outlive the
  // backend.
  void begin(std::string_view what, Queue);
  void access(Role, const ConstView&);
  // Records a copy as a read of src and a write of dst. Either view may be absent.
  void transfer(std::string_view what, Queue, const ConstView& src, const View& dst);

  DryTarget target_;
  BackendProperties properties_;
  Arena arena_;
  Accesses accesses_;
  View scratch_;
  double flops_ = 0;
};

}  // namespace trireme
