// trireme calibrate: measures this machine.
#include "lib/calibrate/calibrate.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "app/commands.hpp"
#include "app/run_support.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "lib/deck/machine_file.hpp"
#include "lib/io/posix_file.hpp"
#include "lib/launch/devices.hpp"
#include "lib/launch/mpi_job.hpp"

namespace trireme {

namespace {

struct CalibrateArguments {
  std::string file, operations, backend = "auto";
  std::int64_t threads = 0;
};

int measure(const CalibrateArguments& a) {
  const launch::MpiJob mpi;
  const auto& world = mpi.world();
  Deck deck;
  deck.run.backend = a.backend;
  deck.run.threads = a.threads;
  auto choice = backend_choice(deck, world);
  choice.device = launch::gpu_of_rank(choice.name == "cuda", false, world);
  require(choice.name == "cuda" || choice.name == "host",
          "--backend is host or cuda: {} is for tests alone", choice.name);
  std::unique_ptr<Backend> backend;
  together(world, [&] { backend = open_backend(choice); });
  CalibrationSettings s;
  for (const auto t : {DType::f32, DType::bf16})
    if (compute_type(choice, t) == t) s.dtypes.push_back(t);
  s.threads = choice.threads;
  if (choice.name == "cuda" && !transport::nccl_library().empty())
    s.device = transport::nccl_on(choice.device);
  s.name = fmt::format("{}, {}{}", machine_kind(choice), counted(world.size(), "rank"),
                       choice.name == "host" ? " of " + counted(choice.threads, "thread") : "");
  if (!a.operations.empty())
    together(world, [&] {
      s.operations = load_machine(a.operations);
      const auto& m = *s.operations;
      require(m.measured && m.backend == choice.name && (m.threads == 0 || m.threads == s.threads),
              "--operations-from {}: {} was not measured on ranks such as these ({}, {}): measure "
              "without it",
              a.operations, m.name, choice.name, counted(s.threads, "thread"));
    });
  std::filesystem::path folder = std::filesystem::path(a.file).parent_path();
  s.disk = folder.empty() ? "." : folder;
  together(world, [&] {
    require(std::filesystem::is_directory(s.disk),
            "{}: there is no folder {} to write it to: make it first", a.file, s.disk.string());
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto machine = calibrate(*backend, world, s);
  at_root(world, [&] {
    replace_atomically(a.file, machine_text(machine));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print("{}: {}, measured in {:.0f} s\n", a.file, machine.name, took.count());
  });
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "calibrate", "measure this machine for plan --machine: run it as a job would run");
  auto a = std::make_shared<CalibrateArguments>();
  command->add_option("file", a->file, "the machine file to write (TOML)")
      ->required()
      ->transform(with_environment());
  command
      ->add_option("--operations-from", a->operations,
                   "take rates of operations from this file, and measure links alone")
      ->transform(with_environment());
  command->add_option("--backend", a->backend, "auto, host or cuda")->capture_default_str();
  command->add_option("--threads", a->threads, "of a rank (default: as run.threads)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}));
  command->callback([&chosen, a] { chosen = [a] { return measure(*a); }; });
}

}  // namespace trireme
