// Own reduce-scatter against MPI_Reduce_scatter, f32, one thread a rank; run under mpiexec -n 2.
//   reduce_scatter_bench [MiB] [rounds] [elements of a chunk]
// Prints one line: MiB, own ms, MPI's ms, bf16 ms, own GB/s (bytes summed up a rank), ratio.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/host/host.hpp"
#include "lib/launch/mpi_job.hpp"

using namespace trireme;

namespace {

// The slowest rank's milliseconds, all starting together.
double time_of(const Communicator& world, const std::function<void()>& work) {
  double ms = 0;
  world.all_reduce_max({&ms, 1});
  const auto began = std::chrono::steady_clock::now();
  work();
  ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  world.all_reduce_max({&ms, 1});
  return ms;
}

double median(std::vector<double> x) {
  std::ranges::nth_element(x, x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2));
  return x[x.size() / 2];
}

void check_mpi(int code) {
  require(code == MPI_SUCCESS, "MPI_Reduce_scatter failed with code {}", code);
}

}  // namespace

int main(int argc, char** argv) {
  const launch::MpiJob job;
  const auto& world = job.world();
  const auto mib = argc > 1 ? std::atoll(argv[1]) : 64;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  if (argc > 3) job.world().configure({.chunk = std::atoll(argv[3])});
  Host host(1);
  const std::int64_t part = (mib << 20) / 4 / world.size(), all = part * world.size();
  const auto src = Tensor::empty(host, {all}, DType::f32, MemoryKind::gradients);
  const auto own = Tensor::empty(host, {part}, DType::f32, MemoryKind::gradients);
  const auto theirs = Tensor::empty(host, {part}, DType::f32, MemoryKind::gradients);
  host.put(Queue::compute, kernel::Fill{.dst = src.view(), .value = 1.0 + world.rank()});
  const auto scatter = [&](DType wire) {
    world
        .reduce_scatter(host, Queue::scatter, own.view(), src.view(), Accumulate::overwrite, wire,
                        {OperationKind::scatter})
        .wait(Queue::compute);
  };
  const std::vector<int> counts(static_cast<std::size_t>(world.size()), static_cast<int>(part));
  std::vector<double> ours, mpi, narrow;
  for (int i = -2; i < rounds; ++i) {
    const double a = time_of(world, [&] { scatter(DType::f32); });
    const double b = time_of(world, [&] {
      check_mpi(MPI_Reduce_scatter(src.view().data, theirs.view().data, counts.data(), MPI_FLOAT,
                                   MPI_SUM, MPI_COMM_WORLD));
    });
    require(std::equal(own.view().data, own.view().data + part * 4, theirs.view().data),
            "the two sums differ");
    const double c = time_of(world, [&] { scatter(DType::bf16); });
    if (i < 0) continue;  // first touch of pages, MPI's own buffers
    ours.push_back(a);
    mpi.push_back(b);
    narrow.push_back(c);
  }
  if (world.rank() == 0)
    std::printf("%lld %.2f %.2f %.2f %.2f %.2f\n", static_cast<long long>(mib), median(ours),
                median(mpi), median(narrow), static_cast<double>(all * 4) / median(ours) * 1e-6,
                median(mpi) / median(ours));
  return 0;
}
