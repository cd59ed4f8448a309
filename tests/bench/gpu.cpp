// Speed on a GPU, measured for tests/bench/gpu.py:
//   bench_gpu device            which one there is, or why there is none
//   bench_gpu step [options]    training steps on random tokens
//   bench_gpu decode [options]  tokens with cached keys and values
//   bench_gpu rates [options]   the ceilings that steps are compared with
#include "tests/bench/gpu.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/host/wait_policy.hpp"

namespace trireme::bench {

ModelConfig model_of(const GpuJob& job) {
  auto c = model_preset(job.preset);
  const auto& s = job.shape;
  const auto replace = [](std::int64_t& value, std::int64_t wanted) {
    if (wanted > 0) value = wanted;
  };
  replace(c.layers, s.layers);
  replace(c.width, s.width);
  replace(c.heads, s.heads);
  // Of another width or number of heads: as the preset's kind of model has it.
  if (s.heads > 0) c.kv_heads = s.kv_heads;
  if (s.width > 0) c.ffn_width = s.ffn_width;
  replace(c.vocab, s.vocab);
  replace(c.max_context, s.max_context);
  require(c.width % c.heads == 0, "--width {} is not a multiple of {} heads", c.width, c.heads);
  return completed(c);
}

static void print_device(const GpuJob& job) {
  nlohmann::ordered_json out;
  std::string why;
  if (job.backend.name != "cuda") {
    out = {{"device", "the " + job.backend.name + " backend"}, {"libraries", ""}};
  } else if (cuda_devices(&why) > 0) {
    auto name = cuda_device_identity(0);
    name.resize(name.rfind(' '));  // without its number
    out = {{"device", name},
           {"libraries", cuda_libraries()},
           {"memory_GiB", static_cast<double>(cuda_device_bytes(0)) / (1 << 30)}};
  } else {
    out = {{"device", nullptr}, {"why", why}};
  }
  fmt::print("{}\n", out.dump());
}

static int run(int argc, char** argv) {
  GpuJob job;
  job.backend.name = "cuda";
  job.backend.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  job.shape.layers = job.shape.width = job.shape.heads = job.shape.max_context = 0;
  std::string dtype = "bf16", products = "compute", exactness = "fast", base = "compute";
  CLI::App app("Speed of a training on a GPU.", "bench_gpu");
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* what, void (*measure)(const GpuJob&)) {
    auto* const sub = app.add_subcommand(name, what);
    sub->callback([&job, &dtype, &products, &exactness, &base, measure] {
      job.products = *value_named<ProductType>(products);
      job.adapter.base = *value_named<BaseType>(base);
      job.dtype = dtype == "f32" ? DType::f32 : DType::bf16;
      job.backend.bits = exactness == "fast" ? CudaBits::fast : CudaBits::repeatable;
      measure(job);
    });
    sub->option_defaults()->take_last();
    sub->add_option("--backend", job.backend.name)->check(CLI::IsMember({"cuda", "host"}));
    sub->add_option("--model", job.preset, "a preset of [model]");
    sub->add_option("--layers", job.shape.layers);
    sub->add_option("--width", job.shape.width);
    sub->add_option("--heads", job.shape.heads);
    sub->add_option("--kv-heads", job.shape.kv_heads);
    sub->add_option("--ffn-width", job.shape.ffn_width);
    sub->add_option("--vocab", job.shape.vocab);
    sub->add_option("--context", job.shape.max_context, "tokens of a sample");
    sub->add_option("--batch", job.batch, "samples a step")->check(CLI::PositiveNumber);
    sub->add_option("--microbatch", job.microbatch, "samples at a time; 0: as many as fit");
    sub->add_option("--recompute", job.recompute)->check(CLI::IsMember({"auto", "none", "block"}));
    sub->add_option("--documents", job.documents, "mean tokens of a document");
    sub->add_option("--adapter", job.adapter.rank, "rank of adapters");
    sub->add_option("--base", base, "type of the weights below adapters")
        ->check(CLI::IsMember({"compute", "bf16", "nf4"}));
    sub->add_option("--dtype", dtype)->check(CLI::IsMember({"bf16", "f32"}));
    sub->add_option("--products", products)->check(CLI::IsMember({"compute", "fp8"}));
    sub->add_option("--exactness", exactness)->check(CLI::IsMember({"fast", "repeatable"}));
    sub->add_option("--steps", job.steps)->check(CLI::PositiveNumber);
    sub->add_option("--timed", job.timed, "steps whose operations are timed");
    sub->add_option("--memory", job.memory, "GiB of the device to use");
    sub->add_option("--square", job.square, "rows and columns of a large product");
    sub->add_option("--copy", job.copied, "GiB to copy");
    sub->add_option("--flops", job.product_flops, "of products timed together");
  };
  add("device", "which device there is", print_device);
  add("step", "training steps", print_step);
  add("decode", "tokens with cached keys and values", print_decode);
  add("rates", "ceilings", print_rates);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_gpu: {}\n", e.what());
    return 1;
  }
}

}  // namespace trireme::bench

int main(int argc, char** argv) {
  trireme::host::reexec_with_wait_policy(argv);
  return trireme::bench::run(argc, argv);
}
