#include "tests/support/device_on_host.hpp"

#include <algorithm>
#include <deque>
#include <vector>

#include "lib/base/error.hpp"

namespace trireme::test {
namespace {

class DeviceOnHost final : public transport::DeviceTransport {
 public:
  explicit DeviceOnHost(transport::HostTransport& host) : host_(host) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  void begin_group(void*) override {
    expect(!open_, "groups do not nest");
    open_ = true;
  }
  void end_group() override {
    open_ = false;
    if (!group_.out.empty() || !group_.in.empty()) put(std::move(group_));
    group_ = {};
  }
  Request send(int to, int, std::span<const std::byte> bytes) override {
    expect(open_, "messages are sent in a group");
    group_.out.push_back({to, bytes});
    return number();
  }
  Request receive(int from, int, std::span<std::byte> bytes) override {
    expect(open_, "messages are received in a group");
    group_.in.push_back({from, bytes});
    return number();
  }
  bool test(Request r) override {
    while (move_first()) {
    }
    return static_cast<std::uint32_t>(r) < done_;
  }

  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all, void*) override {
    const auto part = mine.size();
    Group g;
    g.mine = mine;
    g.place = all.subspan(part * index(rank()), part);
    for_others([&](int to, int from) {
      g.out.push_back({to, mine});
      g.in.push_back({from, all.subspan(part * index(from), part)});
    });
    return put(std::move(g));
  }
  Request reduce_scatter(std::span<const float> all, std::span<float> mine, void*) override {
    const auto part = mine.size();
    Group g;
    g.sum = mine;
    const auto own = all.subspan(part * index(rank()), part);
    g.own.assign(own.begin(), own.end());
    g.arriving.resize(ranks() - 1, std::vector<float>(part));
    std::size_t k = g.arriving.size();
    for_others([&](int to, int from) {  // from rank-1, rank-2, ...
      g.out.push_back({to, std::as_bytes(all.subspan(part * index(to), part))});
      g.in.push_back({from, std::as_writable_bytes(std::span(g.arriving[--k]))});
    });
    return put(std::move(g));
  }
  void check() override {}

 private:
  template <class Span>
  struct Message {
    int peer;
    Span bytes;
  };
  struct Group {
    std::vector<Message<std::span<const std::byte>>> out;
    std::vector<Message<std::span<std::byte>>> in;
    std::span<const std::byte> mine;  // of a gather
    std::span<std::byte> place;
    std::span<float> sum;  // of a reduction
    std::vector<float> own;
    std::vector<std::vector<float>> arriving;  // of rank+1, rank+2, ...
    std::uint32_t end = 0;                     // requests below it are done when this is
    bool posted = false, acknowledged = false;
    std::vector<Request> arrives, waits;
  };

  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  static std::size_t index(int r) { return static_cast<std::size_t>(r); }
  template <class F>
  void for_others(const F& f) const {
    for (int k = 1; k < size(); ++k) f((rank() + k) % size(), (rank() + size() - k) % size());
  }

  Request number() { return static_cast<Request>(next_++); }
  Request put(Group g) {
    const auto r = number();
    g.end = next_;
    groups_.push_back(std::move(g));
    return r;
  }

  // True: the first group is done and gone.
  bool move_first() {
    if (groups_.empty()) return false;
    auto& g = groups_.front();
    constexpr int data = 1, receipt = 2;
    if (!g.posted) {
      for (const auto& m : g.in) g.arrives.push_back(host_.receive(m.peer, data, m.bytes));
      for (const auto& m : g.out) {
        g.waits.push_back(host_.send(m.peer, data, m.bytes));
        g.waits.push_back(host_.receive(m.peer, receipt, {}));
      }
      g.posted = true;
    }
    std::erase_if(g.arrives, [&](Request r) { return host_.test(r); });
    if (!g.arrives.empty()) return false;
    if (!g.acknowledged)
      for (const auto& m : g.in) g.waits.push_back(host_.send(m.peer, receipt, {}));
    g.acknowledged = true;
    std::erase_if(g.waits, [&](Request r) { return host_.test(r); });
    if (!g.waits.empty()) return false;
    if (g.mine.data() != g.place.data()) std::ranges::copy(g.mine, g.place.begin());
    if (!g.own.empty()) {
      std::ranges::copy(g.own, g.sum.begin());
      for (const auto& theirs : g.arriving)
        for (std::size_t i = 0; i < theirs.size(); ++i) g.sum[i] += theirs[i];
    }
    done_ = g.end;
    groups_.pop_front();
    return true;
  }

  transport::HostTransport& host_;
  bool open_ = false;
  Group group_;
  std::deque<Group> groups_;
  std::uint32_t next_ = 0, done_ = 0;
};

}  // namespace

std::unique_ptr<transport::DeviceTransport> device_on_host(const transport::Bootstrap& ranks) {
  return std::make_unique<DeviceOnHost>(ranks.host);
}

}  // namespace trireme::test
