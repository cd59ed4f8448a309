#pragma once
// A thread pool that processes a stream of items and delivers the results in the order of the
// items. The caller pushes items while it reads and divides a file. Existing pipeline libraries
// pull items instead.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace trireme {

// Pool that calls `work` on its threads and `sink` on the thread that calls add() and finish(). The
// items in the pool have at most `limit` bytes together. If `work` throws, add() or finish()
// rethrows the exception when the result of that item is due. With one thread, add() does all the
// work itself.
template <class Item, class Result>
class OrderedPool {
 public:
  OrderedPool(int threads, std::size_t limit, std::function<Result(const Item&)> work,
              std::function<void(Result)> sink)
      : limit_(limit), work_(std::move(work)), sink_(std::move(sink)) {
    if (threads <= 1) return;
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { run(); });
  }
  ~OrderedPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      queue_.clear();
    }
    changed_.notify_all();
    for (auto& t : threads_) t.join();
  }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  // Adds an item of `bytes` bytes. While the pool is full, blocks and delivers results.
  void add(Item item, std::size_t bytes) {
    if (threads_.empty()) {
      sink_(work_(item));
      return;
    }
    while (!in_flight_.empty() && bytes_ + bytes > limit_) take_oldest();
    std::packaged_task<Result()> task([this, item = std::move(item)] { return work_(item); });
    in_flight_.push_back({task.get_future(), bytes});
    bytes_ += bytes;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  // Delivers the results of all items in the pool.
  void finish() {
    while (!in_flight_.empty()) take_oldest();
  }

 private:
  struct InFlight {
    std::future<Result> result;
    std::size_t bytes;
  };

  void take_oldest() {
    InFlight oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    bytes_ -= oldest.bytes;
    sink_(oldest.result.get());
  }

  void run() {
    for (;;) {
      std::packaged_task<Result()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        task = std::move(queue_.front());
        queue_.pop_front();
      }
      task();
    }
  }

  std::size_t limit_, bytes_ = 0;
  std::function<Result(const Item&)> work_;
  std::function<void(Result)> sink_;
  std::deque<InFlight> in_flight_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Result()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme
