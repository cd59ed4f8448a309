#pragma once
// What the environment says of the batch job that a process is part of.
#include <string>

namespace trireme::launch {

// Slurm's: "123", of an array "120_3"; empty: none.
std::string job_id();
// How often Slurm has requeued it.
int restart_count();

// For the log: "Slurm job 123, restart 2, on n[1-4]"; empty: no job.
std::string describe_job();

}  // namespace trireme::launch
