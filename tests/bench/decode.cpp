// One token's time with keys and values kept, of the 124M model in f32 on one rank, beside that of
// reading all its weights once at the bandwidth of a copy, measured between the tokens.
//   bench_decode [THREADS]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/parallel.hpp"
#include "lib/base/seconds.hpp"
#include "lib/run/sampling.hpp"
#include "lib/train/trainer.hpp"

using namespace trireme;

namespace {

using Clock = std::chrono::steady_clock;

// Bytes a second that a copy reads and writes.
double copy_rate(std::vector<float>& to, const std::vector<float>& from) {
  const auto n = static_cast<std::int64_t>(from.size());
  const auto begin = Clock::now();
  host::for_chunks(n, 1 << 20, [&](std::int64_t first, std::int64_t last) {
    std::memcpy(to.data() + first, from.data() + first,
                static_cast<std::size_t>(last - first) * sizeof(float));
  });
  return 2.0 * static_cast<double>(n) * sizeof(float) / seconds_since(begin);
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

void measure(Trainer& t, std::int64_t context, std::vector<float>& to,
             const std::vector<float>& from) {
  constexpr int tokens = 20;
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < context; ++i)
    ids.push_back(static_cast<std::int32_t>(i * 7 % 50257));
  KeyValues kept{.positions = std::min<std::int64_t>(1024, context + tokens), .of_block = {}};
  const auto begin = Clock::now();
  auto logits = t.logits(ids, &kept);
  const double prefill = seconds_since(begin);
  const double bytes = 4.0 * static_cast<double>(t.model().spec().parameter_count());
  std::vector<double> ratios, times;
  for (int i = 0; i < tokens; ++i) {
    const double rate = copy_rate(to, from);
    const auto start = Clock::now();
    const auto token = sample_token(logits, {.temperature = 0}, 0);
    const Trainer::Next next{token, context + i, &kept};
    logits = std::move(t.extend({&next, 1})[0]);
    times.push_back(seconds_since(start));
    ratios.push_back(times.back() * rate / bytes);
  }
  fmt::print("{:>7}  {:>10.1f}  {:>9.1f}  {:>17.2f}\n", context, prefill * 1e3, median(times) * 1e3,
             median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : omp_get_max_threads();
  Host host(threads);
  const Workspace scratch(host);
  TrainerSetup s;
  s.model = completed(model_preset("gpt2-124M"));
  s.compute = DType::f32;
  s.trainable = false;
  Trainer trainer(host, {}, s);
  trainer.store().initialize(1, threads);
  std::vector<float> from(std::size_t{1} << 26, 1), to(from.size());
  fmt::print("{} threads; one read of the weights at a copy's bandwidth is 1\n", threads);
  fmt::print("{:>7}  {:>10}  {:>9}  {:>17}\n", "context", "prefill ms", "token ms",
             "token/read weights");
  for (const std::int64_t context : {64, 1000}) {
    measure(trainer, context, to, from);
    std::fflush(stdout);
  }
}
