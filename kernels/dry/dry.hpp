#pragma once
// A backend without memory or arithmetic: it keeps the account of the backend it stands for, counts
// floating-point operations, and checks that any two accesses to the same bytes, one of them a
// write, are ordered by queues and events (vector clocks: Mattern 1989). Scalars in f64 read back
// as 1 and all else as 0, so a step's norms and losses are finite and nothing is skipped.
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/arena.hpp"
#include "kernels/backend.hpp"
#include "kernels/dry/accesses.hpp"

namespace trireme {

// What the backend that is planned for would answer.
struct DryTarget {
  BackendProperties properties;
  std::size_t capacity;  // bytes of device memory
  std::function<AttentionBytes(const AttentionShape&, DType, Direction)> attention_bytes;
  bool order = true;  // accesses are checked, which takes most of the time
};

class Dry : public Backend {
 public:
  explicit Dry(DryTarget);

  // Messages naming two unordered accesses each, the first few of them; and how many there were.
  const std::vector<std::string>& races() const { return accesses_.races(); }
  std::int64_t race_count() const { return accesses_.race_count(); }
  double flops() const { return flops_; }  // of products and attention

  const BackendProperties& properties() const override { return properties_; }
  void put(Queue, const kernel::Operation&) override;
  AttentionBytes attention_bytes(const AttentionShape& s, DType t, Direction d) const override {
    return target_.attention_bytes(s, t, d);
  }
  Block take(std::size_t bytes, Kind, Queue first, Memory) override;
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
  // Records an access of each view; `what` outlives the backend.
  void begin(std::string_view what, Queue);
  void access(Role, const ConstView&);
  void transfer(std::string_view what, Queue, const ConstView& src, const View& dst);

  DryTarget target_;
  BackendProperties properties_;
  Arena arena_;
  Accesses accesses_;
  View scratch_;
  double flops_ = 0;
};

}  // namespace trireme
