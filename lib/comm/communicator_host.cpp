// Communicator's blocking collectives on host memory, and the comparison of labels, which uses
// them.
#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/trace.hpp"
#include "lib/base/timesheet.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/comm/engine/progress.hpp"

namespace trireme {

using transport::Reduction, transport::Transport;

void Communicator::finish(Transport::Request r, const std::function<std::string()>& what) const {
  const TraceScope span(Trace::on() ? "wait for " + what() : "");
  const TaskScope task(Task::agreeing);
  const auto test = [&] {
    try {
      return context_->host->test(r);
    } catch (const Error& e) {
      fail("{}: {}", what(), e.what());
    }
  };
  context_->progress->wait_until(test, [&]() -> engine::Wait {
    return {what(), fmt::format("call {}: rank {} of {}", context_->collectives, rank_, size_)};
  });
}

void Communicator::broadcast(std::string& text, int root) const {
  if (!context_->host) return;
  const auto what = [&] { return fmt::format("broadcast from rank {}", root); };
  require_same(what);
  auto& host = *context_->host;
  auto length = static_cast<std::int64_t>(text.size());
  finish(host.broadcast(root, std::as_writable_bytes(std::span(&length, 1))), what);
  text.resize(static_cast<std::size_t>(length));
  finish(host.broadcast(root, std::as_writable_bytes(std::span(text))), what);
}

void Communicator::reduce(std::span<double> x, Reduction how) const {
  if (!context_->host) return;
  if (auto* observer = context_->progress->observer()) observer->agree(*context_, x.size_bytes());
  require_same([&] {
    return fmt::format("{} of {} numbers", how == Reduction::sum ? "sum" : "maximum", x.size());
  });
  finish(context_->host->all_reduce(how, x),
         [&] { return fmt::format("all-reduce of {} numbers", x.size()); });
}

void Communicator::all_reduce(std::span<double> x) const {
  reduce(x, Reduction::sum);
}

void Communicator::all_reduce_max(std::span<double> x) const {
  reduce(x, Reduction::max);
}

PendingMaximum Communicator::start_max(double x) const {
  PendingMaximum m(x);
  if (!context_->host) return m;
  // Labels are not compared, because the comparison would wait for ranks that may be waiting for
  // messages from this rank.
  m.request_ = context_->host->all_reduce(Reduction::max, {m.value_.get(), 1});
  m.communicator_ = this;
  return m;
}

PendingMaximum::~PendingMaximum() {
  if (value_ && communicator_) static_cast<void>(value_.release());
}

double PendingMaximum::wait() {
  if (communicator_) {
    communicator_->finish(request_, [] { return std::string("maximum of a number"); });
    communicator_ = nullptr;
  }
  return *value_;
}

std::vector<std::string> Communicator::gather_texts(const std::string& mine) const {
  const auto what = [] { return std::string("all-gather of texts"); };
  auto& host = *context_->host;
  const auto ranks = static_cast<std::size_t>(size_);
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(ranks);
  finish(host.all_gather(std::as_bytes(std::span(&length, 1)),
                         std::as_writable_bytes(std::span(lengths)),
                         std::vector<int>(ranks, sizeof length)),
         what);
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  require(sum <= 1 << 30, "texts of {} bytes together are too long to gather", sum);
  std::string all(static_cast<std::size_t>(sum), '\0');
  finish(host.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                         std::vector<int>(lengths.begin(), lengths.end())),
         what);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const auto n : lengths) {
    texts.push_back(all.substr(at, static_cast<std::size_t>(n)));
    at += static_cast<std::size_t>(n);
  }
  return texts;
}

std::vector<std::string> Communicator::all_gather(const std::string& mine) const {
  if (!context_->host) return {mine};
  require_same([] { return std::string("all-gather of texts"); });
  return gather_texts(mine);
}

void Communicator::require_same(const std::function<std::string()>& what) const {
  if (!context_->host) return;
  const auto number = ++context_->collectives;
  if (!settings().check_labels || size_ == 1) return;
  const auto all = gather_texts(fmt::format("operation {}: {}", number, what()));
  const auto other = std::ranges::find_if(all, [&](const auto& text) { return text != all[0]; });
  require(
      other == all.end(),
      "the {} ranks of a communicator call different operations: rank 0 calls {}; rank {} calls {}",
      size_, all[0], other - all.begin(), other == all.end() ? all[0] : *other);
}

}  // namespace trireme
