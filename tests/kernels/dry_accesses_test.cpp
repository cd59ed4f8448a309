// What dry remembers of events: enough to find every race, and no more than memory has accesses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "kernels/dry/accesses.hpp"
#include "lib/base/rng.hpp"

namespace trireme {
namespace {

using Clock = std::array<std::uint64_t, queue_count>;

ConstView bytes(std::uint64_t begin, std::int64_t count) {
  return {reinterpret_cast<const std::byte*>(4096 + begin), DType::bf16, {count / 2}};
}

std::size_t index(Queue q) {
  return static_cast<std::size_t>(q);
}

// The same bookkeeping by its definition: a clock for every record, kept for ever, and for each
// pair of bytes its last write and each queue's last read.
class Plain {
 public:
  void begin(Queue q) { ++clock_[index(q_ = q)][index(q)]; }
  void touch(Touch touch, std::uint64_t begin, std::int64_t count) {
    for (auto i = begin / 2; i < (begin + static_cast<std::uint64_t>(count)) / 2; ++i) {
      auto& cell = cells_[i];
      look(cell.write);
      if (touch == Touch::read) {
        cell.reads[index(q_)] = {clock_[index(q_)][index(q_)], q_};
        continue;
      }
      for (const auto& r : cell.reads) look(r);
      cell = {{clock_[index(q_)][index(q_)], q_}, {}};
    }
  }
  Event record(Queue q) {
    auto& clock = clock_[index(q)];
    ++clock[index(q)];
    records_[index(q)].push_back(clock);
    return {q, clock[index(q)]};
  }
  void wait(Queue q, Event e) {
    const auto& of_queue = records_[index(e.queue)];
    const auto seen = *std::ranges::lower_bound(of_queue, e.ticket, {},
                                                [&](const Clock& c) { return c[index(e.queue)]; });
    for (std::size_t i = 0; i < queue_count; ++i)
      clock_[index(q)][i] = std::max(clock_[index(q)][i], seen[i]);
  }
  bool raced() { return std::exchange(raced_, false); }  // since the last call

 private:
  struct Access {
    std::uint64_t ticket = 0;
    Queue queue{};
  };
  struct Cell {
    Access write;
    std::array<Access, queue_count> reads{};
  };
  void look(const Access& a) {
    if (a.ticket > clock_[index(q_)][index(a.queue)]) raced_ = true;
  }

  std::array<Clock, queue_count> clock_{};
  std::array<std::vector<Clock>, queue_count> records_;
  std::array<Cell, 2048> cells_{};
  Queue q_{};
  bool raced_ = false;
};

// Any work with any waits, also for events of long ago, on bytes that are used often and on others
// that are used seldom: both find a race at the same operations. Three queues sleep mostly.
TEST(DryAccesses, ForgettingChangesNoAnswer) {
  Accesses accesses;
  Plain plain;
  std::vector<Event> events;
  std::int64_t races = 0, raced = 0, clean = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const auto r = philox4x32(5, i, 0);
    const auto q = static_cast<Queue>(r[0] % 64 == 0 ? 4 + r[0] / 64 % 3 : r[0] % 4);
    if (r[1] % 8 < 5 && !events.empty()) {
      const auto n = events.size();
      const bool any = index(q) > 3 || r[2] % 16 == 0;  // else one of the last few
      const auto back = any ? r[3] % n : r[3] % std::min<std::size_t>(n, 6);
      accesses.wait(q, events[n - 1 - back]);
      plain.wait(q, events[n - 1 - back]);
    } else if (r[1] % 8 < 7) {
      events.push_back(plain.record(q));
      EXPECT_EQ(accesses.record(q).ticket, events.back().ticket);
    } else {
      const auto touch = r[2] % 3 ? Touch::read : Touch::write;
      const auto begin = 2 * (r[3] % (r[2] / 3 % 4 ? 60 : 2000));
      const auto count = static_cast<std::int64_t>(2 * (1 + r[3] / 2048 % 4));
      accesses.begin("work", q);
      plain.begin(q);
      accesses.touch(touch, bytes(begin, count));
      plain.touch(touch, begin, count);
      const bool found = accesses.race_count() > races;
      ASSERT_EQ(found, plain.raced()) << "operation " << i;
      races = accesses.race_count();
      ++(found ? raced : clean);
    }
  }
  EXPECT_GT(raced, 1000);
  EXPECT_GT(clean, 1000);
}

// A step as a run's: weights are gathered while compute works on the layer before, gradients leave
// on a third queue, and four queues never do anything.
class Steps {
 public:
  void step() {
    constexpr int layers = 8;
    for (int layer = 0; layer < layers; ++layer) {
      const auto weights = bytes(static_cast<std::uint64_t>(1000 * (layer % 2)), 1000);
      const auto gradients = bytes(static_cast<std::uint64_t>(2000 + 1000 * (layer % 2)), 1000);
      accesses.wait(Queue::gather, used_[layer % 2]);
      work("gather", Queue::gather, {}, weights);
      accesses.wait(Queue::compute, accesses.record(Queue::gather));
      accesses.wait(Queue::compute, sent_[layer % 2]);
      work("layer", Queue::compute, weights, gradients);
      used_[layer % 2] = accesses.record(Queue::compute);
      accesses.wait(Queue::scatter, used_[layer % 2]);
      work("scatter", Queue::scatter, gradients, {});
      sent_[layer % 2] = accesses.record(Queue::scatter);
    }
  }
  void work(const char* what, Queue q, ConstView read, ConstView write) {
    accesses.begin(what, q);
    accesses.touch(Touch::read, read);
    accesses.touch(Touch::write, write);
  }
  Accesses accesses;

 private:
  Event used_[2], sent_[2];
};

TEST(DryAccesses, ALongPlanDoesNotGrow) {
  Steps steps;
  const auto most_of = [&](int n) {
    std::size_t most = 0;
    for (int i = 0; i < n; ++i) {
      steps.step();
      most = std::max(most, steps.accesses.size());
    }
    return most;
  };

  const auto early = most_of(1000), late = most_of(5000);

  EXPECT_LE(late, early);
  EXPECT_LT(late, 5000U);
  EXPECT_EQ(steps.accesses.races(), std::vector<std::string>{});
}

// Only clocks that nothing depends on are forgotten: a queue that slept all the time may wait
// for the first event of all, and that still orders what it did, and no more.
TEST(DryAccesses, AnEventOfLongAgoStillOrders) {
  Steps steps;
  auto& a = steps.accesses;
  const auto early = bytes(10000, 100), late = bytes(11000, 100);
  steps.work("early", Queue::gather, {}, early);
  a.wait(Queue::compute, a.record(Queue::gather));
  const Event first = a.record(Queue::compute);  // has seen `early` through gather
  steps.work("late", Queue::gather, {}, late);
  for (int i = 0; i < 3000; ++i) steps.step();
  ASSERT_EQ(a.race_count(), 0);

  a.wait(Queue::host, first);
  steps.work("read", Queue::host, early, {});
  EXPECT_EQ(a.race_count(), 0);
  steps.work("read", Queue::host, late, {});
  EXPECT_EQ(a.race_count(), 1);
}

TEST(DryAccesses, AWaitForWhatWasNeverRecordedIsAnError) {
  Accesses accesses;
  const Event e = accesses.record(Queue::compute);

  EXPECT_THROW(accesses.wait(Queue::gather, {Queue::compute, e.ticket + 1}), Error);
}

}  // namespace
}  // namespace trireme
