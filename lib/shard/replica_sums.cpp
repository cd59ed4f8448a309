#include "lib/shard/replica_sums.hpp"

#include <utility>

namespace trireme {

ReplicaSums::ReplicaSums(Backend& b, DType wire, int most)
    : backend_(b), wire_(wire), most_(static_cast<std::size_t>(most)) {}

static View own_slice(const Communicator& replicas, const Tensor& flat) {
  const auto n = flat.shape().count() / replicas.size();
  return flat.slice(replicas.rank() * n, {n}).view();
}

void ReplicaSums::begin(const Communicator& replicas, const Tensor& flat, std::string_view segment,
                        Queue written) {
  if (replicas.size() == 1) return;
  if (written != Queue::scatter) backend_.wait(Queue::scatter, backend_.record(written));
  while (summing_.size() >= most_) gather_oldest();
  auto sum =
      replicas.reduce_scatter(backend_, Queue::scatter, own_slice(replicas, flat), flat.view(),
                              Accumulate::overwrite, wire_, {OperationKind::scatter, segment, 0});
  sum.keep(flat);
  summing_.push_back({&replicas, flat, segment, std::move(sum)});
}

void ReplicaSums::gather_oldest() {
  const Communicator& replicas = *summing_.front().replicas;
  const bool staged = !backend_.host_readable() && !replicas.connected();
  while (staged && gathering_.size() >= most_) finish_oldest();
  auto [unused, flat, segment, sum] = std::move(summing_.front());
  summing_.pop_front();
  sum.wait(Queue::scatter);
  auto all = replicas.all_gather(backend_, Queue::scatter, flat.view(), own_slice(replicas, flat),
                                 {OperationKind::scatter, segment, 0});
  all.keep(flat);
  gathering_.push_back({&replicas, std::move(flat), segment, std::move(all)});
}

void ReplicaSums::finish_oldest() {
  gathering_.front().pending.wait(Queue::scatter);  // does not block the compute queue
  gathering_.pop_front();
}

void ReplicaSums::finish() {
  while (!summing_.empty()) gather_oldest();
  if (gathering_.empty()) return;
  while (!gathering_.empty()) finish_oldest();
  backend_.wait(Queue::compute, backend_.record(Queue::scatter));
}

}  // namespace trireme
