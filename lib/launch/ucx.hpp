#pragma once
// UCX, which MPICH and Open MPI move messages with, reads its settings before main.
namespace trireme::launch {

// Re-executes this program with UCX_HANDLE_ERRORS=none unless the user chose something. For where a
// rank was killed, UCX would print a backtrace on each of the others, before and longer than what
// the launcher says of it. Returns when nothing is to be done or the system refuses.
void settle_ucx(char** argv);

}  // namespace trireme::launch
