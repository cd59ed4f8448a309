#pragma once
// What bench_gpu is asked for, and its measurements. Each prints one line of JSON.
#include <cstdint>
#include <string>

#include "kernels/open/open.hpp"
#include "lib/model/adapter.hpp"
#include "lib/model/config.hpp"
#include "lib/ops/product_type.hpp"

namespace trireme::bench {

struct GpuJob {
  std::string preset = "gpt2-124M";
  ModelConfig shape;  // what is above 0 of layers, width, heads, kv_heads, ffn_width,
                      // vocab and max_context replaces the preset's
  AdapterConfig adapter;
  std::int64_t batch = 64;      // samples a step
  std::int64_t microbatch = 0;  // 0: the largest that fits
  std::string recompute = "auto";
  std::int64_t documents = 0;  // mean tokens of a document, which attention stays within; 0: off
  std::int64_t steps = 20;     // whose median counts
  std::int64_t timed = 3;      // further steps whose operations are timed
  double memory = 0;           // GiB of the device to use; 0: nearly all
  DType dtype = DType::bf16;
  ProductType products = ProductType::compute;
  BackendChoice backend;
  std::int64_t square = 8192;   // rows and columns of the product that sets the ceiling
  double copied = 1;            // GiB of the copy that sets the bandwidth
  double product_flops = 2e13;  // of a run of products whose time is taken
};

// The model that the job asks for.
ModelConfig model_of(const GpuJob&);

// Training: milliseconds of a step, memory, and what each operation takes.
void print_step(const GpuJob&);
// Generation: milliseconds of a token of all sequences. `batch` counts the sequences, and `context`
// is the number of tokens at the end.
void print_decode(const GpuJob&);
// What the machine can do at most: products of the model's shapes on random data, and copies.
void print_rates(const GpuJob&);

}  // namespace trireme::bench
