// Attention on the host alone: time and GFLOP/s of the pairs that are seen (2 products of D a pair
// forward, 5 backward). Long contexts of f32 also stand against the rate of a large product, timed
// in turn with them: of_product is the median of the ratios. --benchmark_filter=f32 and the like
// choose.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/onednn.hpp"
#include "kernels/host/parallel.hpp"
#include "lib/base/rng.hpp"

namespace trireme {
namespace {

struct Layer {
  const char* name;
  std::int64_t batch, tokens, heads, head_dim, window = 0;
  std::int64_t document = 0;  // tokens of each; 0: none
};

constexpr Layer layers[] = {{"quick start", 12, 64, 4, 32},
                            {"124M", 4, 64, 12, 64},
                            {"124M", 4, 256, 12, 64},
                            {"124M", 1, 1024, 12, 64},
                            {"7B", 1, 1024, 8, 128},
                            {"long", 1, 4096, 4, 64},

                            {"long", 1, 4096, 4, 128},
                            {"long", 1, 16384, 4, 64},
                            {"window", 1, 16384, 4, 64, 1024},
                            {"window", 1, 16384, 4, 128, 1024},
                            {"documents", 1, 16384, 4, 64, 0, 1000},
                            {"documents", 1, 16384, 4, 128, 0, 1000}};
constexpr std::int64_t long_context = 4096;

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

// Time of one call, in seconds.
double seconds(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// FLOP/s of one large product of squares.
double product_rate() {
  constexpr std::int64_t n = 2048;
  static const Buffer c(DType::f32, {n, n}), a(DType::f32, {n, n}), b(DType::f32, {n, n});
  return 2.0 * n * n * n /
         seconds([&] { host::onednn::sgemm(c.view, a.view, b.view, Accumulate::overwrite); });
}

struct Call {
  Call(const Layer& l, DType t)
      : shape{l.batch, l.tokens,   l.heads,
              l.heads, l.head_dim, 1 / std::sqrt(static_cast<double>(l.head_dim)),
              l.window},
        qkv(t, {l.batch, l.tokens, 3 * l.heads, l.head_dim}),
        d_qkv(t, {l.batch, l.tokens, 3 * l.heads, l.head_dim}),
        o(t, {l.batch, l.tokens, l.heads, l.head_dim}),
        d_o(t, {l.batch, l.tokens, l.heads, l.head_dim}),
        lse(DType::f32, {l.batch, l.heads, l.tokens}),
        starts(DType::i32, {l.batch, l.tokens}),
        ahead(DType::f32, floats(Direction::forward, t)),
        back(DType::f32, floats(Direction::backward, t)) {
    if (l.document == 0) return;
    for (std::int64_t i = 0; i < l.batch * l.tokens; ++i)
      reinterpret_cast<std::int32_t*>(starts.view.data)[i] =
          static_cast<std::int32_t>(i % l.tokens / l.document * l.document);
    start_BT = starts.view;
  }
  Shape floats(Direction d, DType t) const {
    return {static_cast<std::int64_t>(host::attention_bytes(shape, t, d).workspace / 4 + 1)};
  }
  View part(const Buffer& b, int i) const { return b.view.slice(2, i * shape.heads, shape.heads); }

  void forward() const {
    host::run(kernel::Attention{.o_BTHD = o.view,
                                .lse_BHT = lse.view,
                                .q_BTHD = part(qkv, 0),
                                .k_BTGD = part(qkv, 1),
                                .v_BTGD = part(qkv, 2),
                                .shape = shape,
                                .workspace = ahead.view,
                                .start_BT = start_BT},
              {});
  }
  void backward() const {
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
                                    .workspace = back.view,
                                    .start_BT = start_BT},
              {});
  }

  AttentionShape shape;
  Buffer qkv, d_qkv, o, d_o, lse, starts, ahead, back;
  ConstView start_BT{};
};

void run(benchmark::State& state, const Layer& l, DType type, Direction direction) {
  const Call call(l, type);
  auto one = call.shape;  // document, of which the last may be cut
  one.tokens = l.document > 0 ? l.document : l.tokens;
  double flops = attention_flops(one, direction) * static_cast<double>(l.tokens / one.tokens);
  one.tokens = l.tokens % one.tokens;
  flops += attention_flops(one, direction);

  call.forward();
  const bool compared = l.tokens >= long_context && type == DType::f32;
  std::vector<double> ratios;
  for (auto _ : state) {
    const double product = compared ? product_rate() : 1;
    const double s =
        seconds([&] { direction == Direction::forward ? call.forward() : call.backward(); });
    state.SetIterationTime(s);
    ratios.push_back(flops / s / product);
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(1e-9 * flops, benchmark::Counter::kIsIterationInvariantRate);
  if (!compared) return;
  std::ranges::sort(ratios);
  state.counters["of_product"] = ratios[ratios.size() / 2];
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
            ->UseManualTime();
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
