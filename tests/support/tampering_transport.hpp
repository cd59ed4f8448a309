#pragma once
// Messages between host memories, one of which arrives with another bit: a fault of a network.
#include <map>
#include <memory>
#include <utility>

#include "lib/comm/transport/host_transport.hpp"

namespace trireme::test {

// Shared by a transport and all that are split off it.
struct MessageFault {
  std::int64_t received = 0;  // messages of this rank so far
  std::int64_t spoiled = -1;  // the one whose middle gets another bit; -1: none
};

class TamperingTransport final : public transport::HostTransport {
 public:
  TamperingTransport(std::unique_ptr<HostTransport> inner, std::shared_ptr<MessageFault> fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Request send(int to, int tag, std::span<const std::byte> bytes) override {
    return inner_->send(to, tag, bytes);
  }
  Request receive(int from, int tag, std::span<std::byte> bytes) override {
    const auto r = inner_->receive(from, tag, bytes);
    if (fault_->received++ == fault_->spoiled) to_spoil_.emplace(r, bytes);
    return r;
  }
  bool test(Request r) override {
    if (!inner_->test(r)) return false;
    if (const auto it = to_spoil_.find(r); it != to_spoil_.end()) {
      const auto bytes = it->second;
      bytes[bytes.size() / 2 / 4 * 4 + 2] ^= std::byte{0x10};  // of a mantissa, in f32
      to_spoil_.erase(it);
    }
    return true;
  }
  Request broadcast(int root, std::span<std::byte> bytes) override {
    return inner_->broadcast(root, bytes);
  }
  Request all_reduce(transport::Reduction r, std::span<double> x) override {
    return inner_->all_reduce(r, x);
  }
  Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     std::span<const int> bytes) override {
    return inner_->all_gather(mine, all, bytes);
  }
  std::optional<int> arrived(int tag) override { return inner_->arrived(tag); }
  std::unique_ptr<HostTransport> split(int color, int key) override {
    return std::make_unique<TamperingTransport>(inner_->split(color, key), fault_);
  }
  std::unique_ptr<HostTransport> duplicate() override {
    return std::make_unique<TamperingTransport>(inner_->duplicate(), fault_);
  }
  std::unique_ptr<HostTransport> node() override {
    return std::make_unique<TamperingTransport>(inner_->node(), fault_);
  }

 private:
  std::unique_ptr<HostTransport> inner_;
  std::shared_ptr<MessageFault> fault_;
  std::map<Request, std::span<std::byte>> to_spoil_;
};

}  // namespace trireme::test
