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
  const auto id = given("SLURM_JOB_ID");
  return id.empty() ? given("TRIREME_JOB") : id;
}

int restart_count() {
  return std::atoi(given("SLURM_RESTART_COUNT").c_str());
}

int recovery_count() {
  return std::atoi(given("TRIREME_RECOVERY").c_str());
}

std::string describe_job() {
  const auto id = job_id();
  if (id.empty()) return {};
  // A recovered run may use fewer nodes than the job has.
  auto nodes = given("SLURM_STEP_NODELIST");
  if (nodes.empty()) nodes = given("SLURM_JOB_NODELIST");
  const auto cause = given("TRIREME_RECOVERED_FROM");
  std::string recovery;
  if (recovery_count() > 0)
    recovery = fmt::format(", recovery {}{}", recovery_count(),
                           cause.empty() ? "" : fmt::format(" ({})", cause));
  return fmt::format("{} {}, restart {}{}{}", given("SLURM_JOB_ID").empty() ? "job" : "Slurm job",
                     id, restart_count(), recovery, nodes.empty() ? "" : ", on " + nodes);
}

}  // namespace trireme::launch
