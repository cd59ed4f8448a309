#include "lib/train/copy_space.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernels/immediate.hpp"
#include "lib/base/error.hpp"
#include "lib/base/host_name.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/sizes.hpp"
#include "lib/comm/agree.hpp"
#include "lib/io/checkpoint_save.hpp"
#include "lib/io/copy_partners.hpp"
#include "lib/io/memory_copies.hpp"
#include "lib/launch/batch_job.hpp"
#include "lib/launch/nodes.hpp"
#include "lib/train/copy_nodes.hpp"
#include "lib/train/snapshot.hpp"

namespace trireme {

namespace fs = std::filesystem;

// Upper limit for the bytes of a shard that are not elements: HDF5's structures, records and the
// tokenizer. A constant, and a share of the elements.
constexpr double overhead_bytes = 4e6, overhead_share = 0.01;

// Returns a text that differs between file systems of a host.
static std::string file_system_of(const fs::path& directory) {
  struct stat s {};
  if (::stat(directory.c_str(), &s) != 0) fail_errno("access", directory, errno);
  return fmt::format("{}", s.st_dev);
}

// Returns the start of the run whose copies this start will remove, or an empty one.
static CopyOwner earlier_start(const Communicator& world, const fs::path& run) {
  CopyOwner earlier;
  at_root(world, Pace::slow, [&] {
    try {
      earlier = read_copy_owner(run).value_or(CopyOwner{});
    } catch (const Error&) {  // remove_earlier_copies() warns of it
    }
  });
  broadcast(world, earlier);
  return earlier;
}

// Returns the upper limit for the size of each rank's shard in bytes.
static std::vector<double> shard_limits(const Store& store, const Communicator& world) {
  std::vector<double> bytes(static_cast<std::size_t>(world.size()), 0);
  const double mine = bytes_of(rank_slices(store));
  bytes[static_cast<std::size_t>(world.rank())] =
      mine > 0 ? (1 + overhead_share) * mine + overhead_bytes : 0;
  world.all_reduce(bytes);
  return bytes;
}

namespace {

// What the nodes of this node's file system need: nodes may share one, such as containers of one
// host.
struct SpaceNeeded {
  double copy = 0, snapshots = 0;  // bytes of one copy, and of all ranks' snapshots
  double copies() const { return memory_copies_at_a_time * copy; }
};

}  // namespace

// `file_systems` names the file system of each rank that leads its node, and is empty for others.
static SpaceNeeded space_needed(const CopyNodes& nodes, const std::vector<double>& bytes,
                                const std::vector<std::string>& file_systems,
                                const std::string& file_system) {
  SpaceNeeded needed;
  const auto of_nodes = bytes_of_nodes(nodes.nodes, nodes.receivers, bytes);
  for (std::size_t r = 0; r < file_systems.size(); ++r) {
    if (file_systems[r] != file_system) continue;
    const auto node = nodes.nodes[r];
    needed.copy += of_nodes[static_cast<std::size_t>(node)];
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (nodes.nodes[i] == node) needed.snapshots += bytes[i];
  }
  return needed;
}

constexpr std::string_view advice =
    "Use more nodes, set TRIREME_MEMORY_DIR to a larger memory file system, or set "
    "checkpoint.memory_every = 0";

static std::string text_of(const SpaceNeeded& needed, const fs::path& root, bool second_copies) {
  return fmt::format(
      "checkpoint.memory_every needs {} in {} on {} ({} copies of {}, of the node's own ranks{})",
      memory_text(needed.copies()), root.string(), host_name(), memory_copies_at_a_time,
      memory_text(needed.copy), second_copies ? " and those of another node" : "");
}

// Returns the error message if the file system has too little free space, and otherwise an empty
// text. `earlier` is the start whose copies will be removed.
static std::string shortage_of(const SpaceNeeded& needed, const std::string& needs,
                               const fs::path& root, const CopyOwner& earlier) {
  std::error_code e;
  const auto space = fs::space(root, e);
  if (e) fail_errno("access", root, e.value());
  const double free = static_cast<double>(space.available) +
                      (earlier.start.empty() ? 0 : bytes_of_copies(root, earlier));
  if (free >= needed.copies()) return {};
  return fmt::format("{}, but only {} are free. {}", needs, memory_text(free), advice);
}

// The files take the memory of the job.
static void require_memory(const SpaceNeeded& needed, const std::string& needs,
                           const fs::path& root) {
  const auto memory = static_cast<double>(physical_memory());
  require(!is_in_memory(root) || memory >= needed.copies() + needed.snapshots,
          "{}, and {} for the snapshots from which they are written, but the job has only {} of "
          "memory there. {}",
          needs, memory_text(needed.snapshots), memory_text(memory), advice);
}

void require_space_for_copies(const Store& store, const Axes& axes, const fs::path& run,
                              const std::string& run_id) {
  const auto& world = axes.world;
  const auto nodes = copy_nodes(world);
  const auto earlier = earlier_start(world, run);
  const bool leads = nodes.leader == world.rank();
  fs::path root;
  std::string file_system;
  together(world, [&] {
    require(
        is_plain_name(run_id),
        "checkpoint.memory_every needs the ID of the run, which its checkpoints lack, because an "
        "old version wrote them: set checkpoint.memory_every = 0");
    root = memory_root(launch::test_node(world.rank()));
    if (!leads) return;
    make_memory_root(root);
    file_system = fmt::format("{} {}", host_name(), file_system_of(root));
  });
  const auto bytes = shard_limits(store, world);
  const auto file_systems = world.all_gather(file_system);
  // A run that continues after a failure is better without copies than not at all.
  const bool recovers = launch::recovery_count() > 0;
  std::string shortage;
  together(world, [&] {
    if (!leads) return;
    const auto needed = space_needed(nodes, bytes, file_systems, file_system);
    const auto needs = text_of(needed, root, nodes.receivers[0] >= 0);
    shortage = shortage_of(needed, needs, root, earlier);
    require(shortage.empty() || recovers, "{}", shortage);
    require_memory(needed, needs, root);
  });
  for (const auto& of_node : world.all_gather(shortage))
    if (!of_node.empty() && world.rank() == 0) log_warning("{}", of_node);
}

}  // namespace trireme
