#include "kernels/open/open.hpp"

#include <cstdlib>

#include "kernels/cuda/device.hpp"
#include "kernels/fenced/fenced.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/ref/ref.hpp"

namespace trireme {

// What gave this job GPUs; null: nothing did.
static const char* gpus_given_by() {
  for (const char* name : {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"})
    if (const char* value = std::getenv(name); value && *value) return name;
  return nullptr;
}

std::string decide_backend(std::string_view name) {
  require(name != "cuda", "run.backend = \"cuda\" is not supported in this version: use \"host\"");
  if (name != "auto") return std::string(name);
  if (const char* variable = gpus_given_by())
    fail(
        "this job was given GPUs ({} is set), but this version computes on CPUs alone: set "
        "run.backend = \"host\" to train without them",
        variable);
  return "host";
}

std::unique_ptr<Backend> open_backend(const BackendChoice& c) {
  const auto name = decide_backend(c.name);
  const auto poison = c.debug ? Poison::on : Poison::off;
  if (name == "host") return std::make_unique<Host>(c.threads, poison);
  if (name == "ref") return std::make_unique<Ref>(poison);
  if (name == "fenced") return std::make_unique<Fenced>(c.threads);
  fail("\"{}\" is no backend: run.backend is auto, host, ref or fenced", name);
}

DryTarget dry_target(const BackendChoice& c) {
  // Kept alive by the closure: it answers for itself and takes no memory.
  const std::shared_ptr<Backend> backend = open_backend(c);
  return {std::string(backend->name()), physical_memory(), backend->workspace_bytes(),
          [backend](const AttentionShape& s, DType t, Direction d) {
            return backend->attention_workspace(s, t, d);
          },
          backend->host_readable()};
}

DType compute_type(const BackendChoice& c, DType wanted) {
  const auto name = decide_backend(c.name);
  if (name == "ref") return wanted;
  require(wanted != DType::f64, "precision.compute = \"f64\" needs run.backend = \"ref\"");
  return wanted == DType::bf16 && !host::bf16_products() ? DType::f32 : wanted;
}

}  // namespace trireme
