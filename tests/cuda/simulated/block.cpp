#include "tests/cuda/simulated/block.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "tests/cuda/simulated/chance.hpp"
#include "tests/cuda/simulated/copies.hpp"

// Keeps where this stack ends in *from, with the registers that belong to the caller, and goes on
// where `to` was kept. swapcontext would ask the kernel for the signal mask each time.
extern "C" void trireme_switch_stack(void** from, void* to);
asm(R"(
.text
.type trireme_switch_stack, @function
trireme_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size trireme_switch_stack, .-trireme_switch_stack
)");

namespace trireme::simulated {
namespace {

constexpr int warp = 32;
constexpr std::size_t stack_bytes = std::size_t{256} << 10;  // touched pages are what counts

enum class Now : std::uint8_t { unstarted, ready, in_warp, in_block, done };

class Fiber;
struct Lane {
  Now now = Now::unstarted;
  Fiber* fiber = nullptr;
  uint3 thread{};
  Where where;
  unsigned mask = 0;
  std::uint64_t brought = 0;
  unsigned meetings = 0;  // with bytes
};
struct Warp {
  std::vector<Lane> lanes;
  std::vector<std::uint64_t> given;  // by lane, at the last meeting
  // By lane, of this meeting and of the last one, which some lanes may still read.
  std::vector<std::byte> brought[2];
};

// A stack on which `work` begins when it is switched to first.
class Fiber {
 public:
  // Stacks that ended at like addresses would share a few lines of the cache.
  Fiber(void (*work)(), std::size_t number) {
    stack_ = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(stack_ != MAP_FAILED, "no memory for the threads of a simulated block");
    // Six registers, where to go, and a caller that is never returned to.
    auto** const top = reinterpret_cast<void**>(static_cast<std::byte*>(stack_) + stack_bytes -
                                                number % 64 * 9 * 64);
    top[-2] = reinterpret_cast<void*>(work);
    at = top - 8;
  }
  ~Fiber() { munmap(stack_, stack_bytes); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  void* at;  // its stack's end while it does not run

 private:
  void* stack_;
};

// One block at a time.
class Engine {
 public:
  Place place;

  void run(dim3 threads, const std::function<void()>& thread);
  void wait(Now how);
  Lane& lane() { return *lane_; }
  Warp& warp_now() { return *warp_; }
  [[noreturn]] void stop(std::string why);

 private:
  static void work();
  void step(Warp&);
  void resume(Fiber&);
  bool release(Warp&);
  void release_block();
  std::string stuck() const;

  std::vector<Warp> warps_;
  Warp* warp_ = nullptr;
  Lane* lane_ = nullptr;
  std::vector<Lane*> to_start_;
  const std::function<void()>* thread_ = nullptr;
  std::deque<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* fiber_ = nullptr;
  void* host_ = nullptr;
  std::string why_;  // not empty: the kernel is given up
};

Engine engine;

std::string text(const Where& w) {
  return fmt::format("{}:{}", w.file_name(), w.line());
}

bool same(const Where& a, const Where& b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name());
}

// Lanes that need not wait leave the fiber to the next one.
void Engine::work() {
  auto& e = engine;
  for (;;) {
    while (!e.to_start_.empty()) {
      auto& lane = *e.to_start_.back();
      e.to_start_.pop_back();
      e.lane_ = &lane;
      e.place.thread = lane.thread;
      (*e.thread_)();
      e.lane_->now = Now::done;  // not `lane`: what this fiber ran before it waited
    }
    e.free_.push_back(e.fiber_);
    trireme_switch_stack(&e.fiber_->at, e.host_);
  }
}

void Engine::resume(Fiber& f) {
  fiber_ = &f;
  trireme_switch_stack(&host_, f.at);
}

void Engine::wait(Now how) {
  auto* const fiber = fiber_;
  lane_->now = how;
  lane_->fiber = fiber;
  trireme_switch_stack(&fiber->at, host_);
}

void Engine::stop(std::string why) {
  why_ = std::move(why);
  trireme_switch_stack(&fiber_->at, host_);
  std::abort();  // nobody resumes it
}

// Every lane that can run, until it waits or ends.
void Engine::step(Warp& w) {
  warp_ = &w;
  std::vector<Lane*> ready;
  for (auto& l : w.lanes) {
    if (l.now == Now::unstarted) to_start_.push_back(&l);
    if (l.now == Now::ready) ready.push_back(&l);
  }
  chance().shuffle(to_start_);
  chance().shuffle(ready);
  while (!to_start_.empty() && why_.empty()) {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(&Engine::work, fibers_.size()));
      free_.push_back(fibers_.back().get());
    }
    auto* const f = free_.back();
    free_.pop_back();
    resume(*f);
  }
  for (auto* l : ready) {
    if (!why_.empty()) return;
    lane_ = l;
    place.thread = l->thread;
    resume(*l->fiber);
  }
}

// Lets the lanes of a warp go on that have met; false when they have not.
bool Engine::release(Warp& w) {
  const auto first = std::ranges::find(w.lanes, Now::in_warp, &Lane::now);
  if (first == w.lanes.end()) return false;
  const auto mask = first->mask;
  for (std::size_t i = 0; i < w.lanes.size(); ++i) {
    const auto& l = w.lanes[i];
    if (!(mask >> i & 1U)) continue;
    const bool here = l.now == Now::in_warp && l.mask == mask && same(l.where, first->where);
    if (!here) return false;
  }
  require((mask >> (w.lanes.size() - 1)) <= 1, "a warp of {} lanes is asked for lanes {:#x}",
          w.lanes.size(), mask);
  for (std::size_t i = 0; i < w.lanes.size(); ++i)
    if (mask >> i & 1U) {
      w.given[i] = w.lanes[i].brought;
      w.lanes[i].now = Now::ready;
    }
  return true;
}

std::string Engine::stuck() const {
  for (const auto& w : warps_)
    for (std::size_t i = 0; i < w.lanes.size(); ++i)
      if (const auto& l = w.lanes[i]; l.now == Now::in_warp)
        return fmt::format("lane {} waits in vain for the lanes {:#x} of its warp at {}", i, l.mask,
                           text(l.where));
  return "threads wait for their block at different places";
}

void Engine::release_block() {
  const Lane* first = nullptr;
  for (auto& w : warps_)
    for (auto& l : w.lanes) {
      if (l.now == Now::done) continue;
      if (l.now != Now::in_block) fail("{}", stuck());
      if (!first) first = &l;
      if (!same(l.where, first->where))
        fail("threads of a block meet at {} and at {}", text(first->where), text(l.where));
    }
  for (auto& w : warps_)
    for (auto& l : w.lanes)
      if (l.now == Now::in_block) l.now = Now::ready;
}

void Engine::run(dim3 threads, const std::function<void()>& thread) {
  const auto n = threads.x * threads.y * threads.z;
  warps_.assign((n + warp - 1) / warp, {});
  for (unsigned i = 0; i < n; ++i) {
    auto& w = warps_[i / warp];
    w.lanes.emplace_back().thread = {i % threads.x, i / threads.x % threads.y,
                                     i / threads.x / threads.y};
    w.given.push_back(0);
  }
  thread_ = &thread;
  try {
    std::vector<Warp*> running;
    for (auto& w : warps_) running.push_back(&w);
    while (!running.empty()) {
      // A warp runs until it waits for the block; which one does so first is chance.
      auto& next = running[chance().below(running.size())];
      step(*next);
      require(why_.empty(), "{}", why_);
      if (!release(*next)) {
        next = running.back();
        running.pop_back();
      }
      if (!running.empty()) continue;
      release_block();
      for (auto& w : warps_)
        if (std::ranges::any_of(w.lanes, [](const Lane& l) { return l.now == Now::ready; }))
          running.push_back(&w);
    }
  } catch (...) {  // fibers that hold half a thread are of no more use
    to_start_.clear();
    free_.clear();
    fibers_.clear();
    why_.clear();
    throw;
  }
}

}  // namespace

Place& here() {
  return engine.place;
}

void meet_block(const Where& where) {
  engine.lane().where = where;
  engine.wait(Now::in_block);
}

static void meet(unsigned mask, std::uint64_t brought, const Where& where) {
  auto& e = engine;
  auto& lane = e.lane();
  const auto number = static_cast<std::size_t>(&lane - e.warp_now().lanes.data());
  if (!(mask >> number & 1U))
    e.stop(fmt::format("a lane that is not in its mask at {}", text(where)));
  lane.where = where;
  lane.mask = mask;
  lane.brought = brought;
  e.wait(Now::in_warp);
}

std::uint64_t meet_warp(unsigned mask, std::uint64_t brought, unsigned from, const Where& where) {
  auto& e = engine;
  from %= warp;
  if (!(mask >> from & 1U))
    e.stop(fmt::format("lane {} is read but not in the mask at {}", from, text(where)));
  meet(mask, brought, where);
  return e.warp_now().given[from];
}

unsigned vote(unsigned mask, bool brought, const Where& where) {
  meet(mask, brought ? 1 : 0, where);
  unsigned bits = 0;
  const auto& given = engine.warp_now().given;
  for (unsigned i = 0; i < given.size(); ++i)
    if ((mask >> i & 1U) && given[i] != 0) bits |= 1U << i;
  return bits;
}

const std::byte* meet_with(const void* brought, std::size_t bytes, const Where& where) {
  auto& e = engine;
  auto& w = e.warp_now();
  auto& lane = e.lane();
  const auto number = static_cast<std::size_t>(&lane - w.lanes.data());
  auto& all = w.brought[lane.meetings++ % 2];
  all.resize(warp * most_brought);
  std::memcpy(all.data() + number * most_brought, brought, bytes);
  meet(0xffffffffU, 0, where);
  return all.data();
}

static std::uint64_t last_blocks = std::numeric_limits<std::uint64_t>::max();
LastBlocks::LastBlocks(std::uint64_t n) {
  last_blocks = n;
}
LastBlocks::~LastBlocks() {
  last_blocks = std::numeric_limits<std::uint64_t>::max();
}

void run_grid(dim3 blocks, dim3 threads, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  const auto per_block = std::uint64_t{threads.x} * threads.y * threads.z;
  require(per_block > 0 && per_block <= 1024, "a block of {} threads", per_block);
  require(blocks.x > 0 && blocks.y > 0 && blocks.z > 0 && blocks.x <= 0x7fffffffU &&
              blocks.y <= 65535 && blocks.z <= 65535,
          "a grid of {} x {} x {} blocks", blocks.x, blocks.y, blocks.z);
  require(shared_bytes <= (std::size_t{227} << 10), "{} bytes of shared memory", shared_bytes);
  const auto all = std::uint64_t{blocks.x} * blocks.y * blocks.z, some = std::min(all, last_blocks);
  std::vector<std::uint64_t> order(some);
  std::iota(order.begin(), order.end(), all - some);
  chance().shuffle(order);
  std::vector<float> shared((shared_bytes + sizeof(float) - 1) / sizeof(float));
  forget_copies();  // of a kernel that was given up
  auto& e = engine;
  e.place.blocks = blocks;
  e.place.threads = threads;
  e.place.shared = shared.data();
  for (const auto b : order) {
    const auto row = b / blocks.x;
    e.place.block = {static_cast<unsigned>(b % blocks.x), static_cast<unsigned>(row % blocks.y),
                     static_cast<unsigned>(row / blocks.y)};
    std::ranges::fill(shared, std::nanf(""));  // what nobody wrote is no number
    e.run(threads, thread);
    require(forget_copies() == 0, "a block ended before its copies to shared memory arrived");
  }
}

}  // namespace trireme::simulated
