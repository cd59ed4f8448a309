// First and last stage each keep a copy of a tied table, and the two never part by a bit, whatever
// order the transports sum in.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "lib/base/array_names.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/device_on_host.hpp"

namespace trireme {

using test::ParityCase;

namespace {

// Sums on half of the ranks come out a rounding higher, as another order may make them.
class RoundingTransport final : public transport::DeviceTransport {
 public:
  explicit RoundingTransport(std::unique_ptr<transport::DeviceTransport> inner)
      : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void begin_group(void* stream) override { inner_->begin_group(stream); }
  void end_group() override { inner_->end_group(); }
  Request send(int to, int tag, std::span<const std::byte> bytes) override {
    return inner_->send(to, tag, bytes);
  }
  Request receive(int from, int tag, std::span<std::byte> bytes) override {
    return inner_->receive(from, tag, bytes);
  }
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     void* stream) override {
    return inner_->all_gather(mine, all, stream);
  }
  Request reduce_scatter(std::span<const float> all, std::span<float> mine, void* s) override {
    const auto r = inner_->reduce_scatter(all, mine, s);
    if (test::world().rank() >= test::world().size() / 2) sums_[r] = mine;
    return r;
  }
  bool test(Request r) override {
    if (!inner_->test(r)) return false;
    if (const auto it = sums_.find(r); it != sums_.end()) {
      for (auto& x : it->second)
        if (x != 0) x = std::nextafter(x, std::numeric_limits<float>::infinity());
      sums_.erase(it);
    }
    return true;
  }
  void check() override { inner_->check(); }

 private:
  std::unique_ptr<transport::DeviceTransport> inner_;
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
    connect(axes, [](const transport::Bootstrap& t) -> std::unique_ptr<transport::DeviceTransport> {
      return std::make_unique<RoundingTransport>(test::device_on_host(t));
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
