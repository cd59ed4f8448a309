#pragma once
// UCX, which MPICH and Open MPI move messages with, reads its settings before main.
namespace trireme::launch {

// Re-executes this program with these settings unless the user chose something. Returns when
// nothing is to be done or the system refuses.
// UCX_HANDLE_ERRORS=none: where a rank was killed, UCX would print a backtrace on each of the
// others, before and longer than what the launcher says of it.
// UCX_LOG_FILE=stderr: UCX would say what it misses or fails at in the middle of the program's
// output on stdout.
void reexec_with_ucx_settings(char** argv);

}  // namespace trireme::launch
