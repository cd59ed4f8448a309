#include "lib/shard/replica_sums.hpp"

#include <utility>

namespace trireme {

ReplicaSums::ReplicaSums(Backend& b, const Communicator& replicas, DType wire, int most)
    : backend_(b), replicas_(replicas), wire_(wire), most_(static_cast<std::size_t>(most)) {}

View ReplicaSums::own_slice(const Tensor& flat) const {
  const auto n = flat.shape().count() / replicas_.size();
  return flat.slice(replicas_.rank() * n, {n}).view();
}

void ReplicaSums::begin(const Tensor& flat, std::string_view segment, Queue written) {
  if (replicas_.size() == 1) return;
  if (written != Queue::scatter) backend_.wait(Queue::scatter, backend_.record(written));
  while (summing_.size() >= most_) gather_oldest();
  auto sum = replicas_.reduce_scatter(backend_, Queue::scatter, own_slice(flat), flat.view(),
                                      Accumulate::overwrite, wire_, {Doing::scatter, segment, 0});
  sum.keep(flat);
  summing_.push_back({flat, segment, std::move(sum)});
}

void ReplicaSums::gather_oldest() {
  const bool staged = !backend_.host_readable() && !replicas_.connected();
  while (staged && gathering_.size() >= most_) finish_oldest();
  auto [flat, segment, sum] = std::move(summing_.front());
  summing_.pop_front();
  sum.wait(Queue::scatter);
  auto all = replicas_.all_gather(backend_, Queue::scatter, flat.view(), own_slice(flat),
                                  {Doing::scatter, segment, 0});
  all.keep(flat);
  gathering_.push_back({std::move(flat), segment, std::move(all)});
}

void ReplicaSums::finish_oldest() {
  gathering_.front().pending.wait(Queue::scatter);  // compute goes on meanwhile
  gathering_.pop_front();
}

void ReplicaSums::finish() {
  while (!summing_.empty()) gather_oldest();
  if (gathering_.empty()) return;
  while (!gathering_.empty()) finish_oldest();
  backend_.wait(Queue::compute, backend_.record(Queue::scatter));
}

}  // namespace trireme
