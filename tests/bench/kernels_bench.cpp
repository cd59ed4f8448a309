// Rates of the host kernels at the shapes of a 124M model (B*T = 1024), each next to a copy that
// moves as many bytes. Arguments are Google Benchmark's; threads come from OMP_NUM_THREADS.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme {
namespace {

constexpr std::int64_t parameters = 124'475'904, rows = 1024, width = 768, hidden = 3072;
constexpr std::int64_t vocab = 50304, loss_rows = 256, samples = 4, heads = 12;

// Its arena is where a run's tensors lie too, on huge pages.
Host& backend() {
  static Host host(host::threads());
  return host;
}

// Memory for one case, filled by all threads so that its pages exist; small numbers.
class Blocks {
 public:
  Blocks() = default;
  ~Blocks() {
    for (const auto& b : blocks_) host_.give(b, {});
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  View take(DType t, const Shape& s) {
    const auto bytes = static_cast<std::size_t>(s.count()) * bytes_of(t);
    blocks_.push_back(host_.take(bytes, MemoryKind::transient, Queue::compute, Memory::device));
    const View v(blocks_.back().data, t, s);
    host::run(kernel::Fill{.dst = v, .value = t == DType::i32 || t == DType::i64 ? 5 : 0.01}, {});
    return v;
  }
  View scratch() { return take(DType::f32, {std::int64_t{4} << 20}); }

 private:
  Host& host_ = backend();
  std::vector<Block> blocks_;
};

// What to time and how many bytes it reads and writes.
struct Case {
  std::function<void()> run;
  std::int64_t bytes;
};
using Make = std::function<Case(Blocks&)>;

// Bytes a second of a copy that reads and writes as many, at most 1 GiB: the best of five.
double copy_rate(std::int64_t bytes) {
  constexpr std::int64_t most = std::int64_t{1} << 27;  // f32 elements of each side
  static Blocks memory;
  static const View from = memory.take(DType::f32, {most}), to = memory.take(DType::f32, {most});
  const auto n = std::min(most, bytes / 8);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    host::run(kernel::Copy{.dst = to.slice(0, 0, n), .src = from.slice(0, 0, n)}, {});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(8 * n) / time.count());
  }
  return best;
}

void add(const std::string& name, const Make& make) {
  const auto measure = [make](benchmark::State& state) {
    Blocks memory;
    const Case c = make(memory);
    const double copy = copy_rate(c.bytes);
    c.run();
    for (auto _ : state) c.run();
    const auto moved = static_cast<double>(state.iterations() * c.bytes);
    using benchmark::Counter;
    state.counters["GB/s"] = Counter(moved * 1e-9, Counter::kIsRate);
    state.counters["copy_GB/s"] = Counter(copy * 1e-9);
    state.counters["of_copy"] = Counter(moved / copy, Counter::kIsRate);
  };
  benchmark::RegisterBenchmark(name.c_str(), measure)->UseRealTime();
}

std::int64_t size(const View& v) {
  return static_cast<std::int64_t>(v.span_bytes());
}

void add_flat() {
  constexpr auto f32 = DType::f32, narrow = DType::bf16;
  add("copy/f32", [](Blocks& m) {
    const View from = m.take(f32, {parameters}), to = m.take(f32, {parameters});
    return Case{[=] { host::run(kernel::Copy{.dst = to, .src = from}, {}); }, 2 * size(to)};
  });
  add("cast/f32_bf16", [](Blocks& m) {
    const View from = m.take(f32, {parameters}), to = m.take(narrow, {parameters});
    return Case{[=] { host::run(kernel::Copy{.dst = to, .src = from}, {}); },
                size(from) + size(to)};
  });
  add("add/f32", [](Blocks& m) {
    const View from = m.take(f32, {parameters}), to = m.take(f32, {parameters});
    return Case{
        [=] { host::run(kernel::Copy{.dst = to, .src = from, .how = Accumulate::add}, {}); },
        size(from) + 2 * size(to)};
  });
  add("fill/f32", [](Blocks& m) {
    const View to = m.take(f32, {parameters});
    return Case{[=] { host::run(kernel::Fill{.dst = to, .value = 0}, {}); }, size(to)};
  });
  add("sum_squares/f32", [](Blocks& m) {
    const View x = m.take(f32, {parameters}), out = m.take(DType::f64, {1}), s = m.scratch();
    return Case{[=] { host::run(kernel::SumSquares{.out_N = out, .x = {x}}, s); }, size(x)};
  });
  for (const bool with_copy : {false, true}) {
    add(with_copy ? "adamw/bf16" : "adamw/f32", [=](Blocks& m) {
      const View w = m.take(f32, {parameters}), mean = m.take(f32, {parameters}),
                 square = m.take(f32, {parameters}), g = m.take(f32, {parameters});
      const View copy = with_copy ? m.take(narrow, {parameters}) : View{};
      return Case{[=] {
                    host::run(kernel::Update{.rule = rule::AdamW{},
                                             .shards = {{.master_N = w,
                                                         .copy_N = copy,
                                                         .grad_N = g,
                                                         .state_N = {mean, square},
                                                         .factors = {1e-4, 0.1, 1, 10}}}},
                              {});
                  },
                  7 * size(w) + (with_copy ? size(copy) : 0)};
    });
  }
}

void add_activations(DType t) {
  const auto named = [&](const char* kernel) {
    return std::string(kernel) + "/" + std::string(name_of(t));
  };
  add(named("gelu"), [=](Blocks& m) {
    const View x = m.take(t, {rows, hidden}), y = m.take(t, {rows, hidden});
    return Case{[=] {
                  host::run(kernel::Activate{.activation = Activation::gelu, .y_N = y, .x_N = x},
                            {});
                },
                2 * size(x)};
  });
  add(named("gelu_grad"), [=](Blocks& m) {
    const View x = m.take(t, {rows, hidden}), dy = m.take(t, {rows, hidden}),
               dx = m.take(t, {rows, hidden});
    return Case{[=] {
                  host::run(
                      kernel::ActivateGrad{
                          .activation = Activation::gelu, .dx_N = dx, .dy_N = dy, .x_N = x},
                      {});
                },
                3 * size(x)};
  });
  add(named("swiglu"), [=](Blocks& m) {
    const View x = m.take(t, {rows, 2, hidden}), y = m.take(t, {rows, hidden});
    return Case{[=] { host::run(kernel::Swiglu{.y_TF = y, .gate_up_T2F = x}, {}); }, 3 * size(y)};
  });
  add(named("swiglu_grad"), [=](Blocks& m) {
    const View x = m.take(t, {rows, 2, hidden}), dx = m.take(t, {rows, 2, hidden}),
               dy = m.take(t, {rows, hidden});
    return Case{[=] {
                  host::run(kernel::SwigluGrad{.dgate_up_T2F = dx, .dy_TF = dy, .gate_up_T2F = x},
                            {});
                },
                5 * size(dy)};
  });
  add(named("rotary"), [=](Blocks& m) {
    const View x = m.take(t, {samples, rows / samples, heads, width / heads}),
               table = m.take(wide(t), {rows / samples, 2, width / heads / 2});
    return Case{[=] { host::run(kernel::Rotary{.x_BTHD = x, .table_T2E = table}, {}); },
                2 * size(x)};
  });
  add(named("dropout"), [=](Blocks& m) {
    const View x = m.take(t, {samples, rows / samples, width}),
               y = m.take(t, {samples, rows / samples, width});
    const SampleRows where{m.take(DType::i64, {samples}), 0};
    return Case{
        [=] {
          host::run(
              kernel::Dropout{
                  .y_BTC = y, .x_BTC = x, .skip_BTC = y, .key = DropoutKey{7, 0.1F}, .rows = where},
              {});
        },
        3 * size(x)};
  });
  add(named("layer_norm"), [=](Blocks& m) {
    const View x = m.take(t, {rows, width}), y = m.take(t, {rows, width}), w = m.take(t, {width}),
               mean = m.take(wide(t), {rows}), rstd = m.take(wide(t), {rows});
    return Case{[=] {
                  host::run(kernel::Norm{.y_TC = y,
                                         .mean_T = mean,
                                         .rstd_T = rstd,
                                         .x_TC = x,
                                         .w_C = w,
                                         .b_C = w,
                                         .eps = 1e-5},
                            {});
                },
                2 * size(x)};
  });
  add(named("layer_norm_grad"), [=](Blocks& m) {
    const View x = m.take(t, {rows, width}), dx = m.take(t, {rows, width}),
               dy = m.take(t, {rows, width}), w = m.take(t, {width}), s = m.scratch(),
               mean = m.take(wide(t), {rows}), rstd = m.take(wide(t), {rows}),
               dw = m.take(wide(t), {width}), db = m.take(wide(t), {width});
    return Case{[=] {
                  host::run(kernel::NormGrad{.dx_TC = dx,
                                             .dw_C = dw,
                                             .db_C = db,
                                             .dy_TC = dy,
                                             .x_TC = x,
                                             .w_C = w,
                                             .mean_T = mean,
                                             .rstd_T = rstd},
                            s);
                },
                3 * size(x)};
  });
  add(named("column_sum"), [=](Blocks& m) {
    const View x = m.take(t, {rows, hidden}), out = m.take(wide(t), {hidden}), s = m.scratch();
    return Case{[=] { host::run(kernel::ColumnSum{.out_C = out, .x_TC = x}, s); }, size(x)};
  });
  add(named("embedding_grad"), [=](Blocks& m) {
    const View table = m.take(wide(t), {vocab, width}), dy = m.take(t, {rows, width}),
               ids = m.take(DType::i32, {rows}), s = m.scratch();
    return Case{
        [=] { host::run(kernel::EmbeddingGrad{.dtable_VC = table, .dy_TC = dy, .ids_T = ids}, s); },
        size(table) + size(dy)};
  });
  // Gradients of gradients after the first run, which changes no time.
  add(named("cross_entropy"), [=](Blocks& m) {
    const View logits = m.take(t, {loss_rows, vocab}), target = m.take(DType::i32, {loss_rows}),
               loss = m.take(DType::f64, {1}), s = m.scratch();
    return Case{[=] {
                  host::run(kernel::CrossEntropy{.loss = loss,
                                                 .logits_TV = logits,
                                                 .target_T = target,
                                                 .scale = 1,
                                                 .logits = Logits::become_gradient},
                            s);
                },
                2 * size(logits)};
  });
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  backend();  // sets the number of threads
  add_flat();
  for (const auto t : {DType::f32, DType::bf16}) add_activations(t);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
