#pragma once
// How idle OpenMP threads wait. Spinning for long collapses when another process takes a core, and
// libgomp reads its settings before main, so the program starts itself once more with them.
// 2,000 turns outlast the gaps between a step's products on an idle machine (one turn is a `pause`,
// 40 to 140 cycles): fewer cost idle time, more cost time beside a busy process.
namespace trireme::host {

// Re-executes this program with GOMP_SPINCOUNT set unless the user chose a policy (OMP_WAIT_POLICY
// or GOMP_SPINCOUNT). Returns when nothing is to be done or the system refuses.
void reexec_with_wait_policy(char** argv);

}  // namespace trireme::host
