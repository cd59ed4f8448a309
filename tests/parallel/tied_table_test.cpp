// First and last stage each keep a copy of a tied table, and the two never part by a bit, whatever
// order the wires sum in.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/host_wire.hpp"

namespace trireme {

using test::ParityCase;

namespace {

// Sums on half of the ranks come out a rounding higher, as another order may make them.
class RoundingWire final : public DeviceWire {
 public:
  explicit RoundingWire(std::unique_ptr<DeviceWire> wire) : wire_(std::move(wire)) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  void begin_group(void* stream) override { wire_->begin_group(stream); }
  void end_group() override { wire_->end_group(); }
  Request send(int to, int tag, std::span<const std::byte> bytes) override {
    return wire_->send(to, tag, bytes);
  }
  Request receive(int from, int tag, std::span<std::byte> bytes) override {
    return wire_->receive(from, tag, bytes);
  }
  Request all_gather(std::span<std::byte> all, void* stream) override {
    return wire_->all_gather(all, stream);
  }
  Request reduce_scatter(std::span<const float> all, std::span<float> mine, void* s) override {
    const auto r = wire_->reduce_scatter(all, mine, s);
    if (test::world().rank() >= test::world().size() / 2) sums_[r] = mine;
    return r;
  }
  bool test(Request r) override {
    if (!wire_->test(r)) return false;
    if (const auto it = sums_.find(r); it != sums_.end()) {
      for (auto& x : it->second)
        if (x != 0) x = std::nextafter(x, std::numeric_limits<float>::infinity());
      sums_.erase(it);
    }
    return true;
  }
  void check() override { wire_->check(); }

 private:
  std::unique_ptr<DeviceWire> wire_;
  std::map<Request, std::span<float>> sums_;
};

}  // namespace

// Two stages; stage 0 holds the lower half of the ranks.
TEST(TiedTable, CopiesOfTheStagesAreTheSameBits) {
  const int n = test::world().size();
  if (n % 4 != 0) GTEST_SKIP() << "two stages with replicas need 4 ranks";
  for (const int shard : {0, n / 4}) {  // every rank a replica, or pairs
    ParityCase p;
    p.grid = {2, n / 2, 1};
    p.flavour = "gpt2";
    p.optimizer = OptimizerKind::adamw;
    p.backend = "host";
    p.compute = p.reduce = DType::f32;
    p.zero.stage = shard ? 1 : 0;
    p.zero.shard = shard;
    if (!test::next_case(test::name_of(p))) return;
    const auto axes = make_axes(test::world(), p.grid, shard_ranks(p.zero, p.grid));
    connect(axes, [](Transport& t) -> std::unique_ptr<DeviceWire> {
      return std::make_unique<RoundingWire>(test::host_wire(t));
    });
    const auto backend = open_backend(test::backend_of(p, true));
    const Workspace workspace(*backend);
    Trainer trainer(*backend, axes, test::parity_setup(p));
    trainer.store().initialize(3, 1);
    for (int s = 0; s < 3; ++s) trainer.step(s, 1e-3, test::parity_step(p, trainer, s));

    auto& store = trainer.store();
    const auto table = store.spec().table;
    const auto mine = store.own(table);
    std::string bytes(static_cast<std::size_t>(mine.count()) * sizeof(float), '\0');
    store.read(table, weights_array, mine.begin, std::as_writable_bytes(std::span(bytes)));
    const auto all = test::world().all_gather(bytes);
    for (int r = 0; r < n / 2; ++r)
      EXPECT_TRUE(all[static_cast<std::size_t>(r)] == all[static_cast<std::size_t>(r + n / 2)])
          << "rank " << r << " of a stage, " << test::name_of(p);
  }
}

}  // namespace trireme
