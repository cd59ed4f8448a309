// Attention on the host alone: time and GFLOP/s, counting what causality leaves (2 products of
// T (T + 1) / 2 pairs forward, 5 backward). --benchmark_filter=f32 and the like choose.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"
#include "lib/base/rng.hpp"

namespace trireme {
namespace {

struct Layer {
  const char* name;
  std::int64_t batch, tokens, heads, head_dim;
};

constexpr Layer layers[] = {{"quick start", 12, 64, 4, 32}, {"124M", 4, 64, 12, 64},
                            {"124M", 4, 256, 12, 64},       {"124M", 1, 1024, 12, 64},
                            {"long", 1, 16384, 4, 64},      {"7B", 1, 1024, 8, 128}};

struct Buffer {
  Buffer(DType t, const Shape& s)
      : bytes(static_cast<std::size_t>(s.count()) * bytes_of(t)), view(bytes.data(), t, s) {
    for (std::int64_t i = 0; i < s.count(); ++i) {
      const auto r = static_cast<std::uint32_t>(mix64(static_cast<std::uint64_t>(i)));
      const float x = 2 * unit_float(r) - 1;
      if (t == DType::bf16)
        reinterpret_cast<bf16*>(bytes.data())[i] = bf16(x);
      else
        reinterpret_cast<float*>(bytes.data())[i] = x;
    }
  }
  std::vector<std::byte> bytes;
  View view;
};

void run(benchmark::State& state, const Layer& l, DType type, Direction direction) {
  const AttentionShape shape{l.batch, l.tokens,   l.heads,
                             l.heads, l.head_dim, 1 / std::sqrt(static_cast<double>(l.head_dim))};
  const Shape packed{l.batch, l.tokens, 3 * l.heads, l.head_dim};
  const Shape single{l.batch, l.tokens, l.heads, l.head_dim};
  const Buffer qkv(type, packed), d_qkv(type, packed), o(type, single), d_o(type, single);
  const Buffer lse(DType::f32, {l.batch, l.heads, l.tokens});
  const auto part = [&](const Buffer& b, int i) { return b.view.slice(2, i * l.heads, l.heads); };
  const auto floats = [&](Direction d) {
    return Shape{
        static_cast<std::int64_t>(host::attention_bytes(shape, type, d).workspace / 4 + 1)};
  };
  const Buffer ahead(DType::f32, floats(Direction::forward));
  const Buffer back(DType::f32, floats(Direction::backward));
  const auto forward = [&] {
    host::run(kernel::Attention{.o_BTHD = o.view,
                                .lse_BHT = lse.view,
                                .q_BTHD = part(qkv, 0),
                                .k_BTGD = part(qkv, 1),
                                .v_BTGD = part(qkv, 2),
                                .shape = shape,
                                .workspace = ahead.view},
              {});
  };
  const auto backward = [&] {
    host::run(kernel::AttentionGrad{.dq_BTHD = part(d_qkv, 0),
                                    .dk_BTGD = part(d_qkv, 1),
                                    .dv_BTGD = part(d_qkv, 2),
                                    .do_BTHD = d_o.view,
                                    .o_BTHD = o.view,
                                    .lse_BHT = lse.view,
                                    .q_BTHD = part(qkv, 0),
                                    .k_BTGD = part(qkv, 1),
                                    .v_BTGD = part(qkv, 2),
                                    .shape = shape,
                                    .workspace = back.view},
              {});
  };
  forward();
  for (auto _ : state) direction == Direction::forward ? forward() : backward();
  const double products = direction == Direction::forward ? 2 : 5;
  const double pairs = 0.5 * static_cast<double>(l.tokens) * static_cast<double>(l.tokens + 1);
  state.counters["GFLOP/s"] = benchmark::Counter(
      1e-9 * products * 2 * pairs * static_cast<double>(l.batch * l.heads * l.head_dim),
      benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  const Host host(host::threads());  // starts what loops over threads need
  for (const auto& l : layers) {
    for (auto type : {DType::f32, DType::bf16}) {
      for (auto direction : {Direction::forward, Direction::backward}) {
        const auto name = fmt::format("{} B={} T={} H={} D={} {} {}", l.name, l.batch, l.tokens,
                                      l.heads, l.head_dim, name_of(type),
                                      direction == Direction::forward ? "forward" : "backward");
        benchmark::RegisterBenchmark(name.c_str(), run, l, type, direction)
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
