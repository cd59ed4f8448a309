// trireme version, trireme --version
#include "lib/base/version.hpp"

#include <fmt/format.h>

#include <memory>

#include "app/commands.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/host/cpu.hpp"
#include "kernels/host/cpu_kind.hpp"
#include "lib/launch/mpi_job.hpp"

namespace trireme {

// CUDA's libraries are opened where a device answers, and when asked for.
static std::string cuda_text(bool open_libraries) {
  if (!built_with_cuda()) return "no, built without it";
  std::string why;
  if (open_libraries || cuda_devices(&why) > 0) return "yes, " + cuda_libraries();
  return "yes, but its libraries are loaded only if there is a device (trireme version --cuda "
         "loads them now)";
}

static std::string version_text(bool open_libraries) {
  std::string why;
  const int devices = cuda_devices(&why);
  return fmt::format(
      "trireme {}{}\ncompiler: {}\nMPI: {}\nCPU: built for {}, this is {}\nCUDA: {}\n"
      "CUDA devices: {}{}\n",
      version(), commit().empty() ? "" : fmt::format(", commit {}", commit()), compiler(),
      launch::mpi_library(), build_architecture(), host::cpu_kind(), cuda_text(open_libraries),
      devices, devices ? "" : " (" + why + ")");
}

void add_version(CLI::App& app, std::function<int()>& chosen) {
  app.set_version_flag(
      "--version", [] { return version_text(false); },
      "Print version and build information and exit");
  auto* command = app.add_subcommand("version", "Print version and build information");
  const auto open_libraries = std::make_shared<bool>(false);
  command->add_flag(
      "--cuda", *open_libraries,
      "Load the CUDA libraries even without a GPU, and print their versions or why loading failed");
  command->callback([&chosen, open_libraries] {
    chosen = [open_libraries] {
      fmt::print("{}", version_text(*open_libraries));
      return 0;
    };
  });
}

}  // namespace trireme
