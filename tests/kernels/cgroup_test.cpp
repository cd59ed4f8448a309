#include "kernels/cgroup.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

class Cgroup : public testing::Test {
 protected:
  void group(const std::string& path, const std::string& file, const std::string& text) {
    std::filesystem::create_directories(folder.path() / path);
    folder.write(path + "/" + file, text);
  }
  ScratchFolder folder;
};

TEST_F(Cgroup, TheLeastLimitOfAGroupAndThoseAboveItCounts) {
  group("slurm/job_7", "memory.max", "4000000\n");
  group("slurm/job_7/step_0", "memory.max", "max\n");
  group("slurm/other", "memory.max", "1\n");

  EXPECT_EQ(cgroup_limit("0::/slurm/job_7/step_0\n", folder.path()), 4000000U);
  EXPECT_EQ(cgroup_limit("0::/slurm\n", folder.path()), SIZE_MAX);
}

TEST_F(Cgroup, BothVersionsAreRead) {
  group("memory/slurm/job_7", "memory.limit_in_bytes", "5000000\n");

  EXPECT_EQ(cgroup_limit("7:cpu,memory:/slurm/job_7\n0::/\n", folder.path()), 5000000U);
}

// A container's own group is the root, whatever the path says.
TEST_F(Cgroup, AContainersLimitStandsAtTheRoot) {
  group(".", "memory.max", "6000000\n");

  EXPECT_EQ(cgroup_limit("0::/docker/1234\n", folder.path()), 6000000U);
}

TEST_F(Cgroup, WhatIsNoGroupIsNoLimit) {
  EXPECT_EQ(cgroup_limit("", folder.path()), SIZE_MAX);
  EXPECT_EQ(cgroup_limit("nonsense", folder.path()), SIZE_MAX);
  EXPECT_GT(cgroup_limit(), std::size_t{1} << 28);
}

}  // namespace
}  // namespace trireme
