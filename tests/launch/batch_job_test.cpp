#include "lib/launch/batch_job.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace trireme::launch {
namespace {

class BatchJob : public testing::Test {
 protected:
  ~BatchJob() override {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
                             "SLURM_RESTART_COUNT", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST",
                             "TRIREME_JOB", "TRIREME_RECOVERY", "TRIREME_RECOVERED_FROM"})
      unsetenv(name);
  }
};

TEST_F(BatchJob, IsNamedWithItsRestartsAndNodes) {
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_ARRAY_JOB_ID");
  EXPECT_EQ(describe_job(), "");
  setenv("SLURM_JOB_ID", "123", 1);
  setenv("SLURM_RESTART_COUNT", "2", 1);
  setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
  EXPECT_EQ(describe_job(), "Slurm job 123, restart 2, on n[1-2]");
  EXPECT_EQ(restart_count(), 2);
}

TEST_F(BatchJob, IsNamedWithItsRecoveryAndTheNodesThatAreLeft) {
  setenv("SLURM_JOB_ID", "123", 1);
  setenv("SLURM_JOB_NODELIST", "n[1-4]", 1);
  setenv("SLURM_STEP_NODELIST", "n[1,3-4]", 1);
  EXPECT_EQ(recovery_count(), 0);
  setenv("TRIREME_RECOVERY", "3", 1);
  EXPECT_EQ(recovery_count(), 3);
  EXPECT_EQ(describe_job(), "Slurm job 123, restart 0, recovery 3, on n[1,3-4]");
  setenv("TRIREME_RECOVERED_FROM", "no answer from n2", 1);
  EXPECT_EQ(describe_job(),
            "Slurm job 123, restart 0, recovery 3 (no answer from n2), on n[1,3-4]");
}

TEST_F(BatchJob, WithoutSlurmIsNamedByItsScript) {
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_ARRAY_JOB_ID");
  setenv("TRIREME_JOB", "hosts-n1-17", 1);
  EXPECT_EQ(job_id(), "hosts-n1-17");
  EXPECT_EQ(describe_job(), "job hosts-n1-17, restart 0");
  setenv("SLURM_JOB_ID", "123", 1);
  EXPECT_EQ(job_id(), "123");
}

// Each task of an array has a run of its own.
TEST_F(BatchJob, OfAnArrayIsItsTask) {
  setenv("SLURM_JOB_ID", "121", 1);
  setenv("SLURM_ARRAY_JOB_ID", "120", 1);
  setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  EXPECT_EQ(job_id(), "120_3");
}

}  // namespace
}  // namespace trireme::launch
