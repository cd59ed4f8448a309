#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/tensor/tensor.hpp"
#include "tests/bench/gpu.hpp"
#include "tests/bench/shapes.hpp"

namespace trireme::bench {
namespace {

// y_RN = x_RK w_NK', `times` a step.
struct Linear {
  std::string name;
  std::int64_t R, N, K;
  double times;

  double flops() const { return 2.0 * static_cast<double>(R * N) * static_cast<double>(K); }
};

std::vector<Linear> linears_of(const ModelConfig& c, std::int64_t batch, std::int64_t microbatch,
                               std::int64_t head_rows) {
  const auto rows = microbatch * c.max_context;
  const auto a_step = static_cast<double>(c.layers * (batch / microbatch));
  const auto up = is_gated(c.activation) ? 2 * c.ffn_width : c.ffn_width;
  const auto chunk = std::min(rows, head_rows);
  return {{"qkv", rows, (c.heads + 2 * c.kv_heads) * c.head_dim, c.width, a_step},
          {"attention out", rows, c.width, c.width, a_step},
          {"ffn up", rows, up, c.width, a_step},
          {"ffn down", rows, c.width, c.ffn_width, a_step},
          {"head", chunk, c.vocab, c.width,
           static_cast<double>(batch * c.max_context) / static_cast<double>(chunk)}};
}

class Rates {
 public:
  Rates(const GpuJob& job, DType type)
      : job_(job),
        type_(type),
        backend_(open_backend(job.backend)),
        workspace_(*backend_),
        scalar_(tensor({1}, DType::f64)) {
    backend_->put(Queue::compute, kernel::Fill{.dst = scalar_.view(), .value = 0});
  }

  // Seconds of a call out of `calls` back to back, the best of three times.
  template <class F>
  double best(std::int64_t calls, const F& f) {
    f();
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      wait();
      const double begin = seconds();
      for (std::int64_t n = 0; n < calls; ++n) f();
      wait();
      least = std::min(least, (seconds() - begin) / static_cast<double>(calls));
    }
    return least;
  }

  std::string_view backend() const { return backend_->name(); }
  std::int64_t head_rows() const { return backend_->head_rows(); }

  // TFLOP/s of the product and of its two gradients.
  nlohmann::ordered_json linear(const Linear& l) {
    const auto x = random({l.R, l.K}, type_), w = random({l.N, l.K}, type_),
               dy = random({l.R, l.N}, type_), dw = random({l.N, l.K}, wide(type_));
    const auto y = tensor({l.R, l.N}, type_), dx = tensor({l.R, l.K}, type_);
    const auto rate = [&](const Tensor& c, ConstView a, ConstView b, Accumulate how) {
      const auto s = best(calls(l), [&] {
        backend_->put(Queue::compute,
                      kernel::Matmul{.c_MN = c.view(), .a_MK = a, .b_KN = b, .how = how});
      });
      return l.flops() / s * 1e-12;
    };
    const auto forward = rate(y, x.view(), w.view().transposed(), Accumulate::overwrite);
    const auto input = rate(dx, dy.view(), w.view(), Accumulate::overwrite);
    const auto weight = rate(dw, dy.view().transposed(), x.view(), Accumulate::add);
    return {{"name", l.name},   {"R", l.R},     {"N", l.N},    {"K", l.K},
            {"times", l.times}, {"y", forward}, {"dx", input}, {"dw", weight}};
  }

  // GB/s, read and written.
  double copy() {
    const auto n = static_cast<std::int64_t>(job_.copied * (1 << 30)) / 4;
    const auto from = random({n}, DType::f32), to = tensor({n}, DType::f32);
    const auto s = best(20, [&] {
      backend_->put(Queue::compute, kernel::Copy{.dst = to.view(), .src = from.view()});
    });
    return 8e-9 * static_cast<double>(n) / s;
  }

 private:
  std::int64_t calls(const Linear& l) const {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(job_.product_flops / l.flops()), 1,
                                    200);
  }
  void wait() {
    double value = 0;
    backend_->download(Queue::compute, std::as_writable_bytes(std::span(&value, 1)),
                       scalar_.view());
  }
  Tensor tensor(const Shape& s, DType t) {
    return Tensor::empty(*backend_, s, t, MemoryKind::transient);
  }
  // The same few million numbers again and again: what counts is that their bits are not alike.
  Tensor random(const Shape& s, DType t) {
    auto& some = t == DType::bf16 ? narrow_ : wide_;
    if (some.empty()) {
      some.resize(some_numbers * bytes_of(t));
      randomise({some.data(), t, {some_numbers}}, 1, 7);
    }
    auto made = tensor(s, t);
    const View all = made.view().reshaped({s.count()});
    for (std::int64_t i = 0; i < s.count(); i += some_numbers) {
      const auto n = std::min(some_numbers, s.count() - i);
      backend_->upload(Queue::compute, all.slice(0, i, n),
                       std::span(some).first(static_cast<std::size_t>(n) * bytes_of(t)));
    }
    return made;
  }

  static constexpr std::int64_t some_numbers = 1 << 22;
  const GpuJob& job_;
  DType type_;
  std::unique_ptr<Backend> backend_;
  Workspace workspace_;
  Tensor scalar_;
  std::vector<std::byte> narrow_, wide_;
};

}  // namespace

void print_rates(const GpuJob& job) {
  const auto c = model_of(job);
  const auto type = compute_type(job.backend, job.dtype);
  Rates rates(job, type);
  auto products = nlohmann::ordered_json::array();
  double most = 0, flops = 0, seconds = 0;
  const auto measure = [&](const Linear& l) {
    products.push_back(rates.linear(l));
    for (const char* product : {"y", "dx", "dw"}) {
      const double rate = products.back()[product];
      most = std::max(most, rate);
      flops += l.times * l.flops();
      seconds += l.times * l.flops() / (rate * 1e12);
    }
  };
  const auto microbatch = job.microbatch > 0 ? job.microbatch : job.batch;
  for (const auto& l : linears_of(c, job.batch, microbatch, rates.head_rows())) measure(l);
  measure({"square", job.square, job.square, job.square, 0});
  const nlohmann::ordered_json out = {{"model", job.preset},
                                      {"backend", rates.backend()},
                                      {"dtype", name_of(type)},
                                      {"gemm_tflops", most},
                                      {"model_tflops", flops / seconds * 1e-12},
                                      {"copy_GBs", rates.copy()},
                                      {"products", products}};
  fmt::print("{}\n", out.dump());
}

}  // namespace trireme::bench
