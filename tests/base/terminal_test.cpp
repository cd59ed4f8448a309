#include "lib/base/terminal.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace trireme {
namespace {

ProcessView started(std::vector<std::string> arguments) {
  return {arguments[0], arguments, 1};
}

TEST(Terminal, LaunchersAreKnownByName) {
  for (const char* name : {"mpiexec", "mpiexec.mpich", "mpiexec.hydra", "mpirun.openmpi", "srun"})
    EXPECT_TRUE(is_launcher(name)) << name;
  for (const char* name : {"bash", "mpiexecute", "tee", "srunner"})
    EXPECT_FALSE(is_launcher(name)) << name;
}

TEST(Terminal, ALauncherThatWritesElsewhereIsNone) {
  EXPECT_FALSE(changes_output(started({"mpiexec", "-n", "4", "trireme", "train", "deck.toml"})));
  EXPECT_FALSE(changes_output(started({"srun", "-n", "4", "--mpi=pmi2", "trireme"})));
  for (const char* option : {"-prepend-rank", "-errfile-pattern=%r", "--tag-output", "-l"})
    EXPECT_TRUE(changes_output(started({"mpiexec", option, "trireme"}))) << option;
  for (const char* option : {"-oout.txt", "-e", "--error=x", "--label", "-l"})
    EXPECT_TRUE(changes_output(started({"srun", option, "trireme"}))) << option;
}

TEST(Terminal, AProcessIsSeen) {
  const auto here = process_view(::getpid());
  ASSERT_TRUE(here);
  EXPECT_EQ(here->parent, ::getppid());
  ASSERT_FALSE(here->arguments.empty());
  EXPECT_FALSE(process_view(-1));
}

}  // namespace
}  // namespace trireme
