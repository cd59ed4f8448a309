#pragma once
// Settings of UCX, the library through which MPICH and Open MPI send messages. UCX reads its
// settings from the environment before main.
namespace trireme::launch {

// Sets two variables unless the user has set them, and executes this program again. Returns only if
// both variables were set or if the execution failed.
//
// UCX_HANDLE_ERRORS=none: otherwise, if a rank is killed, UCX prints a long backtrace on every
// other rank before the launcher reports the failure.
//
// UCX_LOG_FILE=stderr: otherwise, UCX writes its warnings into the program's output on stdout.
void reexec_with_ucx_settings(char** argv);

}  // namespace trireme::launch
