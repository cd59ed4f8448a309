#include "lib/calibrate/calibrate.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <span>

#include "lib/base/draft.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/seconds.hpp"
#include "lib/calibrate/operands.hpp"
#include "lib/comm/agree.hpp"

namespace trireme {
namespace {

// Bytes that a large copy reads and writes a second.
double copy_bandwidth(Backend& b, const Stopwatch& watch) {
  SampleOperands memory(b);
  constexpr std::int64_t n = 1 << 25;
  const View dst = memory.take(DType::f32, {n}), src = memory.take(DType::f32, {n});
  return 8 * static_cast<double>(n) / watch.seconds(Queue::compute, [&](int) {
    b.put(Queue::compute, kernel::Copy{.dst = dst, .src = src});
  });
}

// Seconds of the host to put an operation on a device's queue, whatever it takes there.
double launch_seconds(Backend& b) {
  SampleOperands memory(b);
  const View dst = memory.take(DType::f32, {8});
  constexpr int calls = 200;
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    const auto before = b.record(Queue::compute);
    while (!b.done(before)) {
    }
    const auto begin = std::chrono::steady_clock::now();
    for (int n = 0; n < calls; ++n) b.put(Queue::compute, kernel::Fill{.dst = dst});
    best = std::min(best, seconds_since(begin) / calls);
  }
  return best;
}

// All ranks gather, in pairs of neighbours: both directions are in use.
LinkRates link_rates(Backend& b, const Communicator& world, const Stopwatch& watch) {
  SampleOperands memory(b);
  const auto gather = [&](std::int64_t n) {
    const View all = memory.take(DType::f32, {n * world.size()});
    const View own = all.slice(0, n * world.rank(), n);
    return watch.seconds([&] {
      world.all_gather(b, Queue::gather, all, own, {engine::OperationKind::gather, "a link"})
          .wait(Queue::compute);
    });
  };
  const double received = static_cast<double>(world.size() - 1) * sizeof(float);
  constexpr std::int64_t few = 64, many = 1 << 22;
  LinkRates link;
  link.latency = gather(few) / (world.size() - 1);
  link.bandwidth = received * many / gather(many);
  return link;
}

double agreement_seconds(const Communicator& node, const Stopwatch& watch) {
  std::array<double, 128> numbers{};
  return watch.seconds([&] { node.all_reduce(numbers); });
}

// Seconds to write a file, which is gone then.
double write_seconds(const std::filesystem::path& path, std::span<const std::byte> data) {
  try {
    const Draft draft(path);  // never published
    const auto begin = std::chrono::steady_clock::now();
    auto file = PosixFile::create(draft.path());
    file.write_at(data, 0);
    file.sync();
    return seconds_since(begin);
  } catch (const Error& e) {
    fail(
        "{}: every rank must be able to write {} bytes to the folder of the machine file, as for a "
        "checkpoint. Choose another folder",
        e.what(), data.size());
  }
}

double disk_bandwidth(const Communicator& world, const std::filesystem::path& folder) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const std::vector<std::byte> data(bytes, std::byte{1});
  double seconds = 0;
  together(world, Pace::slow, [&] {
    seconds = write_seconds(folder / fmt::format("trireme-calibrate-{}", world.rank()), data);
  });
  world.all_reduce_max({&seconds, 1});
  return static_cast<double>(bytes) / seconds;
}

// Links between nodes are measured by all ranks of a node at once, each with one of every other.
void require_nodes_alike(const Communicator& world, const Communicator& node) {
  const double size = node.size();
  std::array<double, 2> sizes{size, -size};
  world.all_reduce_max(sizes);
  if (sizes[0] != -sizes[1])
    throw SharedError(
        fmt::format("nodes run between {} and {} ranks, but calibration needs the same number on "
                    "every node: use srun --ntasks-per-node or mpiexec -ppn N",
                    -sizes[1], sizes[0]));
}

// Of two measurements of one table, made at other times, the less disturbed one of each entry.
template <class Better>
void take_better(std::vector<double>& all, const std::vector<double>& again, const Better& better) {
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = better(all[i], again[i]);
}

template <class Table>
void merge(std::vector<Table>& all, std::vector<Table> again) {
  if (all.empty()) all = again;
  for (std::size_t i = 0; i < all.size(); ++i)
    if constexpr (requires { all[i].flops; })
      take_better(all[i].flops, again[i].flops, std::ranges::max);
    else
      take_better(all[i].seconds, again[i].seconds, std::ranges::min);
}

// Other work on the machine lasts longer than one measurement, so all are made twice.
constexpr int passes = 2;

void measure_operations(MachineModel& m, Backend& b, const Stopwatch& watch, DType t, bool log) {
  std::vector<OperationSeconds> operations;
  std::vector<AttentionRates> attention;
  std::vector<ProductRates> products;
  for (int pass = 0; pass < passes; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    merge(operations, operation_seconds(b, watch, t));
    merge(attention, attention_rates(b, watch, t));
    merge(products, product_rates(b, watch, t));
    if (log)
      log_info("measured operations in {}, pass {} of {}: {:.0f} s", name_of(t), pass + 1, passes,
               seconds_since(begin));
  }
  double most = 0;
  for (const auto& p : products) most = std::max(most, std::ranges::max(p.flops));
  m.peak[t] = most;
  std::ranges::move(operations, std::back_inserter(m.operations));
  std::ranges::move(attention, std::back_inserter(m.attention));
  std::ranges::move(products, std::back_inserter(m.products));
}

}  // namespace

MachineModel calibrate(Backend& b, const Communicator& world, const CalibrationSettings& s) {
  const Workspace workspace(b);
  const Stopwatch watch(b, world, s.least / passes);
  MachineModel m = s.operations.value_or(MachineModel());
  m.name = s.name;
  m.measured = true;
  m.source = "measured by trireme calibrate";
  m.backend = b.host_readable() ? "host" : std::string(b.name());
  m.threads = b.host_readable() ? s.threads : 0;
  const auto node = world.node();
  require_nodes_alike(world, node);
  const auto nodes = world.split(node.rank(), world.rank());  // one rank of each
  m.ranks_of_node = node.size();
  m.near = m.far = {};
  m.agreement.reset();
  if (!s.disk.empty()) m.disk_write = disk_bandwidth(world, s.disk);  // first, as it may fail
  if (!s.operations) {
    m.memory_bandwidth = copy_bandwidth(b, watch);
    if (!b.host_readable()) m.launch = launch_seconds(b);
    for (const auto t : s.dtypes) measure_operations(m, b, watch, t, world.rank() == 0);
  }
  if (s.device)
    for (const auto* c : {&node, &nodes}) c->connect(*s.device);
  if (node.size() > 1) m.near = link_rates(b, node, watch);
  // All ranks of a node at once: what each gets of what they share.
  if (nodes.size() > 1) m.far = link_rates(b, nodes, watch);
  if (node.size() > 1) m.agreement = agreement_seconds(node, watch);
  return m;
}

}  // namespace trireme
