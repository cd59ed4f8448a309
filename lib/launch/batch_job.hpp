#pragma once
// Information about the batch job that this process belongs to, from environment variables.
#include <string>

namespace trireme::launch {

// Returns Slurm's job id: "123", or "120_3" in a job array. Returns an empty string outside a job.
std::string job_id();
// Returns how often Slurm has requeued the job.
int restart_count();

// Returns text for the log, like "Slurm job 123, restart 2, on n[1-4]". Returns an empty string
// outside a job.
std::string describe_job();

}  // namespace trireme::launch
