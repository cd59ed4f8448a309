#pragma once
// A CUDA runtime that keeps work until somebody waits for it, and writes down what it was asked.
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/runtime.hpp"
#include "lib/base/error.hpp"

namespace trireme::cuda {

class RecordingRuntime final : public Runtime {
 public:
  static constexpr std::size_t page = 4096;

  struct Line {
    int number = 0;
    std::deque<std::function<void()>> work;
  };
  struct Point {
    int number = 0;
    Line* line = nullptr;  // where it was recorded last
    bool passed = true;
    bool timed = false;
    double at = 0;  // milliseconds of `clock` when it passed
  };

  std::vector<std::string> calls;  // "wait 2 for 5": stream 2 for mark 5; "record 5 on 0"
  std::vector<std::pair<std::byte*, std::size_t>> backed, pinned;
  double clock = 0;  // milliseconds
  std::size_t device_size = 64 * page;
  std::size_t device_left = 64 * page;  // what `back` can still give
  int streams() const { return static_cast<int>(lines_.size()); }
  int live_marks() const { return static_cast<int>(points_.size()); }
  bool released() const { return released_; }

  // Everything on the stream, and what it waits for.
  void finish(Stream s) {
    auto& l = *static_cast<Line*>(s);
    while (!l.work.empty()) step(l);
  }

  Stream create_stream(Urgency = Urgency::usual) override {
    lines_.push_back(std::make_unique<Line>(Line{streams(), {}}));
    return lines_.back().get();
  }
  void destroy_stream(Stream s) noexcept override {
    std::erase_if(lines_, [&](const auto& l) { return l.get() == s; });
  }
  void synchronize(Stream s) override { finish(s); }
  void limit_waits(double) override {}
  Mark create_mark() override {
    auto p = std::make_unique<Point>(Point{.number = made_++});
    auto* const mark = p.get();
    points_.emplace(mark, std::move(p));
    return mark;
  }
  void destroy_mark(Mark m) noexcept override { points_.erase(static_cast<Point*>(m)); }
  void record(Mark m, Stream s) override {
    auto* const p = static_cast<Point*>(m);
    auto* const l = static_cast<Line*>(s);
    require(p->passed, "mark {} is recorded again before it passed", p->number);
    calls.push_back(fmt::format("record {} on {}", p->number, l->number));
    p->line = l;
    p->passed = false;
    l->work.emplace_back([this, p] {
      p->passed = true;
      p->at = clock;
    });
  }
  void wait(Stream s, Mark m) override {
    auto* const p = static_cast<Point*>(m);
    auto* const l = static_cast<Line*>(s);
    calls.push_back(fmt::format("wait {} for {}", l->number, p->number));
    l->work.emplace_back([this, p] { synchronize_mark(p); });
  }
  bool passed(Mark m) override { return static_cast<Point*>(m)->passed; }
  void synchronize_mark(Mark m) override {
    auto* const p = static_cast<Point*>(m);
    while (!p->passed) step(*p->line);
  }
  Mark create_timed_mark() override {
    auto* const mark = create_mark();
    static_cast<Point*>(mark)->timed = true;
    return mark;
  }
  double milliseconds(Mark begin, Mark end) override {
    const auto &a = *static_cast<Point*>(begin), &b = *static_cast<Point*>(end);
    require(a.timed && b.timed && a.passed && b.passed, "marks {} and {} have no time", a.number,
            b.number);
    return b.at - a.at;
  }

  // Work that takes so long.
  void run(Stream s, double milliseconds) {
    static_cast<Line*>(s)->work.emplace_back([this, milliseconds] { clock += milliseconds; });
  }

  std::size_t page_bytes() override { return page; }
  std::size_t device_bytes() override { return device_size; }
  std::byte* reserve(std::size_t bytes) override {
    reserved_.push_back(std::make_unique<std::byte[]>(bytes));
    return reserved_.back().get();
  }
  void back(std::byte* at, std::size_t bytes) override {
    require(bytes <= device_left, "taking device memory failed: out of memory");
    device_left -= bytes;
    backed.emplace_back(at, bytes);
  }
  void release(std::byte*, std::size_t, std::size_t) noexcept override { released_ = true; }
  void pin(std::byte* at, std::size_t bytes) override { pinned.emplace_back(at, bytes); }
  void unpin(std::byte* at) noexcept override {
    std::erase_if(pinned, [&](const auto& p) { return p.first == at; });
  }

  void copy_to_device(std::byte* to, const std::byte* from, std::size_t bytes, Stream s) override {
    static_cast<Line*>(s)->work.emplace_back([=] { std::memcpy(to, from, bytes); });
  }
  void copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes, Stream s) override {
    static_cast<Line*>(s)->work.emplace_back([=] { std::memcpy(to, from, bytes); });
  }
  void set_bytes(std::byte* at, unsigned char value, std::size_t bytes, Stream s) override {
    static_cast<Line*>(s)->work.emplace_back([=] { std::memset(at, value, bytes); });
  }

 private:
  static void step(Line& l) {
    const auto work = std::move(l.work.front());
    l.work.pop_front();
    work();
  }

  std::vector<std::unique_ptr<Line>> lines_;
  std::map<Point*, std::unique_ptr<Point>> points_;
  int made_ = 0;
  bool released_ = false;
  std::vector<std::unique_ptr<std::byte[]>> reserved_;
};

}  // namespace trireme::cuda
