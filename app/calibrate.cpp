// trireme calibrate: measures this machine.
#include "lib/calibrate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "app/commands.hpp"
#include "app/launch.hpp"
#include "app/output.hpp"
#include "lib/base/counted.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "lib/launch/devices.hpp"
#include "lib/predict/machine_file.hpp"

namespace trireme {

namespace {

struct CalibrateArguments {
  std::string file, operations, backend = "auto";
  std::int64_t threads = 0;
  ExistingFile existing = ExistingFile::stays;
};

std::string text_of(const CalibrateArguments& a) {
  return fmt::format("{} --operations-from '{}' --backend '{}' --threads {} {}", a.file,
                     a.operations, a.backend, a.threads, a.existing == ExistingFile::replaced);
}

// Ranks measure the same things at the same time.
void require_one_kind(const Communicator& world, const BackendChoice& choice) {
  std::string kind;
  together(world, [&] { kind = machine_kind(choice); });
  const auto all = world.all_gather(kind);
  const auto other = std::ranges::find_if(all, [&](const auto& k) { return k != all[0]; });
  if (other != all.end())
    throw SharedError(
        fmt::format("rank 0 has {}, but rank {} has {}. A machine file describes one kind of node: "
                    "request nodes of one kind (Slurm: --constraint)",
                    all[0], other - all.begin(), *other));
}

// What was measured before, on ranks such as these.
MachineModel load_operations(const std::string& file, const BackendChoice& choice,
                             const CalibrationSettings& s) {
  auto m = load_machine(file);
  const auto refuse = [&](const std::string& why) {
    fail("--operations-from {}: {}. Leave out --operations-from to measure the operations again",
         file, why);
  };
  if (!m.measured || m.backend != choice.name || (m.threads != 0 && m.threads != s.threads))
    refuse(fmt::format("{} was not measured with the backend and threads of these ranks ({}, {})",
                       m.name, choice.name, counted(s.threads, "thread")));
  if (const auto here = machine_kind(choice) + ","; !m.name.starts_with(here))
    refuse(
        fmt::format("it was measured on {}, according to its machine.name, but this machine is {}",
                    m.name, machine_kind(choice)));
  for (const auto t : s.dtypes)
    if (std::ranges::find(m.products, t, &ProductRates::dtype) == m.products.end() ||
        std::ranges::find(m.attention, t, &AttentionRates::dtype) == m.attention.end())
      refuse(fmt::format(
          "it has no [[product]] or no [[attention]] for {}, in which these ranks also compute",
          name_of(t)));
  return m;
}

// What people add by hand to a file that was measured on one node.
LinkRates far_before(const CalibrateArguments& a) {
  if (a.existing == ExistingFile::stays || !is_there(a.file) || read_text(a.file).empty())
    return {};
  return load_machine(a.file).far;
}

int measure(const Communicator& world, const CalibrateArguments& a) {
  Deck deck;
  deck.run.backend = a.backend;
  deck.run.threads = a.threads;
  auto choice = backend_choice(deck, world);
  choice.device = launch::gpu_of_rank(choice.name == "cuda", false, world);
  together(world, [&] {
    require(choice.name == "cuda" || choice.name == "host",
            "--backend {} is only for tests: use host or cuda", choice.name);
  });
  require_one_kind(world, choice);
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
    together(world, [&] { s.operations = load_operations(a.operations, choice, s); });
  const auto folder = std::filesystem::path(a.file).parent_path();
  s.disk = folder.empty() ? "." : folder;
  together(world, [&] { require_folder_of(a.file); });
  LinkRates far;
  at_root(world, [&] {
    require_output(a.file, machine_file, a.existing);
    far = far_before(a);
  });
  const auto begin = std::chrono::steady_clock::now();
  auto machine = calibrate(*backend, world, s);
  at_root(world, [&] {
    if (!machine.far.bandwidth && !machine.far.latency && (far.bandwidth || far.latency)) {
      machine.far = far;
      log_info("kept the section [far] of {}, because the network between nodes was not measured",
               a.file);
    }
    write_output(a.file, machine_file, a.existing, machine_text(machine));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    say("{}: {}, measured in {:.0f} s\n", a.file, machine.name, took.count());
  });
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand(
      "calibrate",
      "Measure compute, network and disk speed for plan --machine; start it with "
      "mpiexec or srun as you would start a run");
  auto a = std::make_shared<CalibrateArguments>();
  command->add_option("file", a->file, "Machine file to write (TOML)")
      ->required()
      ->transform(with_environment());
  add_overwrite(*command, a->existing);
  command
      ->add_option(
          "--operations-from", a->operations,
          "Take the speed of compute operations from this machine file, and measure only the "
          "network and disk")
      ->transform(with_environment());
  command
      ->add_option("--backend", a->backend,
                   "Backend to measure: host (CPU), cuda, or auto (cuda if there is a GPU)")
      ->capture_default_str();
  command
      ->add_option("--threads", a->threads,
                   "Number of threads per rank (default: as for run.threads)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}));
  command->callback([&chosen, a] {
    chosen = [a] {
      return on_all_ranks(text_of(*a), [&](const Communicator& w) { return measure(w, *a); });
    };
  });
}

}  // namespace trireme
