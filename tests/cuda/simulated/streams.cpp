#include "tests/cuda/simulated/streams.hpp"

#include <cuda_runtime_api.h>
#include <sched.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.hpp"
#include "tests/cuda/simulated/chance.hpp"
#include "tests/cuda/simulated/memory.hpp"

namespace trireme::simulated {
namespace {

struct Stream;

// One recording of an event.
struct Point {
  Stream* on;
  bool passed = false;
  double at = 0;  // milliseconds
};
struct Task {
  const char* name;
  std::function<bool()> work;    // false: it has not ended
  std::shared_ptr<Point> after;  // not before it passed; null: at once
};
struct Stream {
  int device;
  std::deque<Task> tasks;
};
struct Event {
  int device;
  bool timed;
  std::shared_ptr<Point> point;
};

int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

std::vector<Stream*> streams;
std::optional<std::string> fault_text;
double clock_ms = 0;

Stream& of(cudaStream_t s) {
  require(s, "the default stream is not used");
  return *reinterpret_cast<Stream*>(s);
}
Event& of(cudaEvent_t e) {
  return *reinterpret_cast<Event*>(e);
}

bool waits(const Stream& s) {
  return s.tasks.front().after && !s.tasks.front().after->passed;
}

// What has to be done first for the stream's first task.
Stream& needed(Stream& s) {
  auto* at = &s;
  for (std::size_t steps = 0; waits(*at); ++steps) {
    at = at->tasks.front().after->on;
    require(!at->tasks.empty() && steps <= streams.size(),
            "streams wait for each other, or for one that is gone");
  }
  return *at;
}

// False: its first task has not ended.
bool do_first(Stream& s) {
  const auto& task = s.tasks.front();
  try {
    if (task.work && !task.work()) return false;
  } catch (const std::exception& e) {
    const auto* const name = task.name;
    s.tasks.pop_front();
    fail("{}: {}", name, e.what());
  }
  s.tasks.pop_front();
  clock_ms += 0.001 * static_cast<double>(1 + chance().below(16));
  return true;
}

Stream* any_ready() {
  std::vector<Stream*> ready;
  for (auto* s : streams)
    if (!s->tasks.empty() && !waits(*s)) ready.push_back(s);
  return ready.empty() ? nullptr : ready[chance().below(ready.size())];
}

// Runs f, which does work of the device.
template <class F>
cudaError_t guarded(const F& f) {
  if (fault_text) return cudaErrorLaunchFailure;
  try {
    const OpenMemory open;
    f();
    return cudaSuccess;
  } catch (const std::exception& e) {
    fault_text = e.what();
    return cudaErrorLaunchFailure;
  }
}

template <class Until>
cudaError_t drive(Stream& target, const Until& until) {
  return guarded([&] {
    constexpr double eager[] = {0, 0.5, 0.9};
    const double ahead = eager[chance().below(std::size(eager))];
    while (!until())
      // Where that is up to another rank, this one's other streams go on, as it may wait for them.
      if (!do_first(chance().of(ahead) ? *any_ready() : needed(target)) && !do_first(*any_ready()))
        sched_yield();
  });
}

cudaError_t add(Stream& s, Task task) {
  if (fault_text) return cudaErrorLaunchFailure;
  s.tasks.push_back(std::move(task));
  return cudaSuccess;
}

}  // namespace

int device_of(cudaStream_t stream) {
  return of(stream).device;
}

cudaError_t put(cudaStream_t stream, const char* name, std::function<void()> work) {
  if (device_of(stream) != current_device()) return cudaErrorInvalidResourceHandle;
  return add(of(stream), {name, [work = std::move(work)] { return work(), true; }, {}});
}

cudaError_t put_stepwise(cudaStream_t stream, const char* name, std::function<bool()> step) {
  return add(of(stream), {name, std::move(step), {}});
}

void go_on() {
  if (auto* const s = chance().of(0.5) ? any_ready() : nullptr) guarded([&] { do_first(*s); });
}

cudaError_t finish(cudaStream_t stream) {
  auto& s = of(stream);
  return drive(s, [&] { return s.tasks.empty(); });
}

const char* fault() {
  return fault_text ? fault_text->c_str() : nullptr;
}

void mend() {
  fault_text.reset();
}

}  // namespace trireme::simulated

using namespace trireme::simulated;

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  streams.push_back(new Stream{current_device(), {}});
  *out = reinterpret_cast<cudaStream_t>(streams.back());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto code = finish(stream);
  std::erase(streams, &of(stream));
  delete &of(stream);
  return code;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return finish(stream);
}

// The program polls, so its calls are when the device works.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (chance().of(0.5)) return finish(stream);
  go_on();
  if (fault()) return cudaErrorLaunchFailure;
  return of(stream).tasks.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreate(cudaEvent_t* out) {
  *out = reinterpret_cast<cudaEvent_t>(new Event{current_device(), true, {}});
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  *out = reinterpret_cast<cudaEvent_t>(
      new Event{current_device(), (flags & cudaEventDisableTiming) == 0, {}});
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (of(event).device != of(stream).device) return cudaErrorInvalidResourceHandle;
  auto point = std::make_shared<Point>(Point{&of(stream)});
  of(event).point = point;
  return put(stream, "an event", [point] {
    point->passed = true;
    point->at = clock_ms;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!of(event).point) return cudaSuccess;
  return add(of(stream), {"a wait", {}, of(event).point});
}
// The device goes on meanwhile, or does not.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto point = of(event).point;
  go_on();
  if (fault()) return cudaErrorLaunchFailure;
  return !point || point->passed ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto point = of(event).point;
  if (!point || point->passed) return fault() ? cudaErrorLaunchFailure : cudaSuccess;
  return drive(*point->on, [&] { return point->passed; });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const auto &a = of(begin), &b = of(end);
  if (!a.timed || !b.timed || !a.point || !b.point) return cudaErrorInvalidResourceHandle;
  if (!a.point->passed || !b.point->passed) return cudaErrorNotReady;
  *ms = static_cast<float>(b.point->at - a.point->at);
  return cudaSuccess;
}
