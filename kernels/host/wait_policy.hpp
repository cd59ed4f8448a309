#pragma once
// Setting for how idle OpenMP threads wait. Performance collapses if they spin for long while
// another process needs a core. libgomp reads its settings before main, so the program sets them
// and starts itself again.
//
// Threads spin 2,000 times, which is longer than the gaps between the products of a step on an idle
// machine (one spin is a `pause`, 40 to 140 cycles). Fewer spins cost time on an idle machine. More
// spins cost time next to a busy process.
namespace trireme::host {

// Starts this program again with GOMP_SPINCOUNT set, unless the user has set OMP_WAIT_POLICY or
// GOMP_SPINCOUNT. Returns only if nothing needs to be set or if exec fails.
void reexec_with_wait_policy(char** argv);

}  // namespace trireme::host
