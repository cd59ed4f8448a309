// trireme version, trireme --version
#include "lib/base/version.hpp"

#include <fmt/format.h>

#include "app/commands.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/host/cpu.hpp"
#include "kernels/host/cpu_kind.hpp"
#include "lib/launch/mpi_job.hpp"

namespace trireme {

static std::string version_text() {
  std::string why;
  const int devices = cuda_devices(&why);
  const auto libraries = cuda_libraries();
  return fmt::format(
      "trireme {}{}\ncompiler: {}\nMPI: {}\nCPU: built for {}, this is {}\nCUDA: {}\n"
      "CUDA devices: {}{}\n",
      version(), commit().empty() ? "" : fmt::format(", commit {}", commit()), compiler(),
      launch::mpi_library(), build_architecture(), host::cpu_kind(),
      libraries.empty() ? "no, built without it" : "yes, " + libraries, devices,
      devices ? "" : " (" + why + ")");
}

void add_version(CLI::App& app, std::function<int()>& chosen) {
  app.set_version_flag("--version", version_text, "what this program is and was built with");
  auto* command = app.add_subcommand("version", "the same as --version");
  command->callback([&chosen] {
    chosen = [] {
      fmt::print("{}", version_text());
      return 0;
    };
  });
}

}  // namespace trireme
