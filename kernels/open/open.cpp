#include "kernels/open/open.hpp"

#include <cstdlib>

#include "kernels/fenced/fenced.hpp"
#include "kernels/host/cpu_kind.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/ref/ref.hpp"
#include "kernels/rounding/rounding.hpp"

namespace trireme {

// Returns the name of the environment variable that assigns GPUs to this job, or null if there is
// none.
static const char* gpus_given_by() {
  for (const char* name : {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"})
    if (const char* value = std::getenv(name); value && *value) return name;
  return nullptr;
}

std::string decide_backend(std::string_view name) {
  if (name != "auto") return std::string(name);
  std::string why;
  if (cuda_devices(&why) > 0) return "cuda";
  if (const char* variable = gpus_given_by())
    fail(
        "this job was given GPUs ({} is set), but none can be used: {}. Set run.backend = \"host\" "
        "to train without them",
        variable, why);
  // Training on the CPU although the machine has a GPU could waste days before anyone notices.
  std::string no_driver;
  require(!built_with_cuda() || !cuda_driver_answers(&no_driver),
          "this machine has an NVIDIA device, but it cannot be used: {}. Set run.backend = "
          "\"host\" to train without it",
          why);
  return "host";
}

static CudaChoice cuda_choice(const BackendChoice& c) {
  return {.device = c.device,
          .bits = c.bits,
          .tf32 = c.tf32,
          .debug = c.debug,
          .guards = c.guards,
          .headroom = c.headroom,
          .hang_timeout = c.hang_timeout};
}

static std::unique_ptr<Backend> open_named(const BackendChoice& c) {
  const auto name = decide_backend(c.name);
  const auto poison = c.debug ? Poison::on : Poison::off;
  if (name == "host") return std::make_unique<Host>(c.threads, poison, c.guards);
  if (name == "ref") return std::make_unique<Ref>(poison, c.guards);
  require(name != "fenced" || c.guards == Guards::off,
          "run.guards = true works only with the backends host, ref and cuda; the backend fenced "
          "has guards of its own");
  if (name == "fenced") return std::make_unique<Fenced>(c.threads);
  if (name == "cuda") return open_cuda(cuda_choice(c));
  fail("\"{}\" is not a backend: run.backend is auto, host, ref, fenced or cuda", name);
}

std::unique_ptr<Backend> open_backend(const BackendChoice& c) {
  auto backend = open_named(c);
  if (c.rounding == 0) return backend;
  return std::make_unique<Rounding>(std::move(backend), c.rounding);
}

DryTarget dry_target(const BackendChoice& c) {
  if (decide_backend(c.name) == "cuda") {  // works without a device, too
    constexpr std::size_t unlimited = std::size_t{1} << 60;
    std::string why;
    const auto capacity = cuda_devices(&why) > c.device ? cuda_device_bytes(c.device) : unlimited;
    return {.properties = cuda_properties(),
            .capacity = capacity,
            .attention_bytes = [bits = c.bits](const AttentionShape& s, DType t, Direction d) {
              return cuda_attention_bytes(s, t, d, bits);
            }};
  }
  // The closure owns the backend, which computes the sizes. The backend has allocated no memory.
  const std::shared_ptr<Backend> backend = open_backend(c);
  return {.properties = backend->properties(),
          .capacity = physical_memory(),
          .attention_bytes = [backend](const AttentionShape& s, DType t, Direction d) {
            return backend->attention_bytes(s, t, d);
          }};
}

std::string machine_kind(const BackendChoice& c) {
  if (decide_backend(c.name) != "cuda") return host::cpu_kind();
  const int architecture = cuda_architecture(c.device);
  return fmt::format("GPU of compute capability {}.{}, {}", architecture / 10, architecture % 10,
                     cuda_libraries());
}

DType compute_type(const BackendChoice& c, DType wanted) {
  const auto name = decide_backend(c.name);
  if (name == "ref") return wanted;
  require(wanted != DType::f64, "precision.compute = \"f64\" needs run.backend = \"ref\"");
  return name != "cuda" && wanted == DType::bf16 && !host::bf16_products() ? DType::f32 : wanted;
}

}  // namespace trireme
