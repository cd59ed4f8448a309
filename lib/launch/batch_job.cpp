#include "lib/launch/batch_job.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace trireme::launch {

static std::string given(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

static std::string slurm_job_id() {
  const auto array = given("SLURM_ARRAY_JOB_ID");
  if (!array.empty()) return array + "_" + given("SLURM_ARRAY_TASK_ID");
  return given("SLURM_JOB_ID");
}

std::string job_id() {
  const auto slurm = slurm_job_id();
  return slurm.empty() ? given("TRIREME_JOB") : slurm;
}

int restart_count() {
  return std::atoi(given("SLURM_RESTART_COUNT").c_str());
}

int attempt() {
  return std::atoi(given("TRIREME_ATTEMPT").c_str());
}

std::string describe_job() {
  const auto id = slurm_job_id(), nodes = given("SLURM_JOB_NODELIST");
  if (id.empty()) return {};
  return fmt::format("Slurm job {}, restart {}{}", id, restart_count(),
                     nodes.empty() ? "" : ", on " + nodes);
}

}  // namespace trireme::launch
