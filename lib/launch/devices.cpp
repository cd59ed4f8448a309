#include "lib/launch/devices.hpp"

#include "kernels/cuda/device.hpp"
#include "lib/comm/agree.hpp"

namespace trireme::launch {

void require_one_backend(std::span<const std::string> names) {
  for (std::size_t r = 1; r < names.size(); ++r)
    require(names[r] == names[0],
            "run.backend = \"auto\" selects {} on rank 0 and {} on rank {}: give every rank a GPU, "
            "or set run.backend = \"host\"",
            names[0], names[r], r);
}

std::string ranks_sharing(std::span<const std::string> identities) {
  for (std::size_t a = 0; a < identities.size(); ++a) {
    if (identities[a].empty()) continue;
    for (std::size_t b = a + 1; b < identities.size(); ++b)
      if (identities[a] == identities[b]) return fmt::format("ranks {} and {}", a, b);
  }
  return {};
}

// Returns the device number of this rank. A launcher may show each rank one device, with number 0,
// or show all devices of the node to each rank.
int gpu_of_rank(bool wanted, bool share, const Communicator& world) {
  const int local = world.node().rank();
  int device = 0;
  std::string identity;
  together(world, [&] {
    if (!wanted) return;
    std::string why;
    const int devices = cuda_devices(&why);
    require(devices > 0, "run.backend = \"cuda\", but no CUDA device can be used: {}", why);
    device = local % devices;
    identity = cuda_device_identity(device);
  });
  const auto sharing = ranks_sharing(world.all_gather(identity));
  together(world, [&] {
    require(
        share || sharing.empty(),
        "{} would compute on one GPU: start as many ranks on a node as it has GPUs (with Slurm, "
        "set --ntasks-per-node to the number in --gpus-per-node), or set run.share_gpu = true",
        sharing);
  });
  return device;
}

}  // namespace trireme::launch
