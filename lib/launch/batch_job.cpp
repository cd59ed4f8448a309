#include "lib/launch/batch_job.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace trireme::launch {

static std::string given(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string job_id() {
  const auto array = given("SLURM_ARRAY_JOB_ID");
  if (!array.empty()) return array + "_" + given("SLURM_ARRAY_TASK_ID");
  return given("SLURM_JOB_ID");
}

int restart_count() {
  return std::atoi(given("SLURM_RESTART_COUNT").c_str());
}

std::string describe_job() {
  const auto id = job_id(), nodes = given("SLURM_JOB_NODELIST");
  if (id.empty()) return {};
  return fmt::format("Slurm job {}, restart {}{}", id, restart_count(),
                     nodes.empty() ? "" : ", on " + nodes);
}

}  // namespace trireme::launch
