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
  bool stepwise = false;
};
struct Stream {
  int device;
  std::deque<Task> tasks;
  bool recording = false;
  std::vector<Task> recorded;
};
struct Event {
  int device;
  bool timed;
  std::shared_ptr<Point> point;
};
struct Graph {
  std::shared_ptr<std::vector<Task>> tasks;
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
  if (target.recording) return cudaErrorStreamCaptureUnsupported;
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
  if (!s.recording) {
    s.tasks.push_back(std::move(task));
    return cudaSuccess;
  }
  // The program's graphs wait for nothing.
  if (task.after) return cudaErrorStreamCaptureIsolation;
  if (task.stepwise) return cudaErrorStreamCaptureUnsupported;
  s.recorded.push_back(std::move(task));
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
  return add(of(stream), {name, std::move(step), {}, true});
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
  streams.push_back(new Stream{current_device(), {}, false, {}});
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
  if (of(stream).recording) return cudaErrorStreamCaptureUnsupported;  // ... and mark nothing
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

// Graphs are what one stream was given, in order.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (of(stream).recording) return cudaErrorIllegalState;
  of(stream).recording = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  auto& s = of(stream);
  if (!std::exchange(s.recording, false)) return cudaErrorIllegalState;
  auto tasks = std::make_shared<std::vector<Task>>(std::exchange(s.recorded, {}));
  *out = reinterpret_cast<cudaGraph_t>(new Graph{std::move(tasks)});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
// The same kernels in the same order may have other arguments.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t old, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo*) {
  auto& to = *reinterpret_cast<Graph*>(old);
  const auto& from = *reinterpret_cast<Graph*>(graph);
  const bool alike = std::ranges::equal(
      *to.tasks, *from.tasks, {}, [](const Task& t) { return std::string_view(t.name); },
      [](const Task& t) { return std::string_view(t.name); });
  if (!alike) return cudaErrorGraphExecUpdateFailure;
  to = from;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return put(stream, "a graph", [tasks = reinterpret_cast<Graph*>(graph)->tasks] {
    for (const auto& t : *tasks) t.work();
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
