#pragma once
// Does what a process prints to stderr end at a terminal? Under a launcher (mpiexec, srun) stderr
// is a pipe or a socket to it, so the launcher is looked for and its own stderr looked at.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// True when stderr is a terminal, or goes into a pipe whose other end a launcher holds that passes
// it on, unchanged, to its own stderr, which is a terminal. Whatever is not known for sure (a
// launcher on another host, a pipe into another program) is none.
bool stderr_ends_at_terminal();

// A process as /proc tells: the name of its program, its arguments, and who started it.
struct ProcessView {
  std::string name;
  std::vector<std::string> arguments;
  int parent = 0;
};
std::optional<ProcessView> process_view(int id);

// Does this launcher write what ranks print somewhere else than to its own stderr, or add to lines?
// By its options, as of mpiexec (MPICH, Open MPI) and srun. Pure.
bool changes_output(const ProcessView&);
bool is_launcher(std::string_view program);

}  // namespace trireme
