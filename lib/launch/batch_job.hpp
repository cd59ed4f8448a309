#pragma once
// Information about the batch job that this process belongs to, from environment variables.
#include <string>

namespace trireme::launch {

// Returns the id of the job: Slurm's, "123" or "120_3" in a job array, or else TRIREME_JOB, which
// jobscripts/train_hosts.sh sets. Returns an empty string outside a job.
std::string job_id();
// Returns how often Slurm has requeued the job.
int restart_count();
// Returns how often the job script has started the run again since Slurm last started the job,
// after a process or a node failed.
int recovery_count();

// Returns text for the log, like "Slurm job 123, restart 2, recovery 1 (n3 does not answer), on
// n[1-4]". Returns an empty string outside a job.
std::string describe_job();

}  // namespace trireme::launch
