#pragma once
// Streams of a simulated device: work is kept until somebody waits for it. Then, by chance, either
// only what must be done is done, or other streams run ahead as far as they may: a wait that is
// missing shows as values that come too late or are overwritten too early.
#include <driver_types.h>

#include <functional>
#include <source_location>

namespace trireme::simulated {

// Puts work on a stream of the current device. What `work` throws is a fault of the device: the
// code and text of every later call.
cudaError_t put(cudaStream_t, const char* name, std::function<void()> work);

// The same of work that is done in steps, such as what other ranks have a part in: false, it has
// not ended yet.
cudaError_t put_stepwise(cudaStream_t, const char* name, std::function<bool()> step);

// The device goes on for a moment, or does not: it does so while the program waits for other ranks.
void go_on();

// The device of a stream: the one that was current when it was made.
int device_of(cudaStream_t);

// Does all that is on the stream.
cudaError_t finish(cudaStream_t);

// The text of the fault, or null.
const char* fault();
// As if there had been none: a process with a real device cannot do that.
void mend();

}  // namespace trireme::simulated
