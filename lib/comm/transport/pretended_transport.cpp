#include "lib/comm/transport/pretended_transport.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace trireme::transport {
namespace {

class PretendedHost final : public HostTransport {
 public:
  PretendedHost(int rank, int size) : rank_(rank), size_(size) {
    require(rank >= 0 && rank < size,
            "rank {} does not exist: the ranks of a job with {} ranks are numbered from 0", rank,
            size);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Request send(int, int, std::span<const std::byte>) override { return {}; }
  Request receive(int, int, std::span<std::byte>) override { return {}; }
  Request broadcast(int, std::span<std::byte>) override { return {}; }
  Request all_reduce(Reduction, std::span<double>) override { return {}; }
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     std::span<const int> bytes) override {
    for (const int n : bytes) {
      expect(static_cast<std::size_t>(n) == mine.size(), "pretended ranks pass what this one does");
      std::ranges::copy(mine, all.begin());
      all = all.subspan(mine.size());
    }
    return {};
  }
  bool test(Request) override { return true; }
  std::optional<int> arrived(int) override { return std::nullopt; }
  std::unique_ptr<HostTransport> split(int, int) override {
    fail(
        "a pretended communicator cannot be split, because the colors of other ranks are not "
        "known: pretend each resulting communicator instead");
  }
  std::unique_ptr<HostTransport> duplicate() override {
    return std::make_unique<PretendedHost>(rank_, size_);
  }
  std::unique_ptr<HostTransport> node() override {
    return std::make_unique<PretendedHost>(rank_, size_);
  }

 private:
  int rank_, size_;
};

class PretendedDevice final : public DeviceTransport {
 public:
  explicit PretendedDevice(const Transport& t) : rank_(t.rank()), size_(t.size()) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Request send(int, int, std::span<const std::byte>) override { return {}; }
  Request receive(int, int, std::span<std::byte>) override { return {}; }
  bool test(Request) override { return true; }
  void begin_group(void*) override {}
  void end_group() override {}
  Request all_gather(std::span<const std::byte>, std::span<std::byte>, void*) override {
    return {};
  }
  Request reduce_scatter(std::span<const float>, std::span<float>, void*) override { return {}; }
  void check() override {}

 private:
  int rank_, size_;
};

}  // namespace

std::unique_ptr<HostTransport> pretended_host(int rank, int size) {
  return std::make_unique<PretendedHost>(rank, size);
}

std::unique_ptr<DeviceTransport> pretended_device(const Bootstrap& ranks) {
  return std::make_unique<PretendedDevice>(ranks.host);
}

}  // namespace trireme::transport
