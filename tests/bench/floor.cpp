// The floor under a training step: all its matrix products back to back, each by the oneDNN path
// that is fastest for it here, and one AdamW pass over all parameters. Operands lie as the step
// stores them, every layer's in memory of its own; the head takes all rows in one call; attention
// is full T x T products. Nothing else of a step is done. Paths: the matmul primitive, the
// BLAS-like call, host::matmul (which may widen bf16). The inner-product primitives run the same
// kernels as these two on plain weights and were no faster.
#include <omp.h>

#include <cstring>
#include <functional>

#include "kernels/host/kernels.hpp"
#include "kernels/host/onednn.hpp"
#include "tests/bench/shapes.hpp"

using namespace trireme;
using namespace trireme::bench;

namespace {

constexpr int warm_up = 2;

struct Product {
  View c;
  ConstView a, b;
};

// Products of one shape and layout, one for each layer: timed together, so a weight is as cold as
// in a step.
struct Family {
  std::string name;
  std::vector<Product> products;
};

struct Path {
  const char* name;
  std::function<void(const Product&)> run;
};

View scratch() {
  static const View memory = take(DType::f32, {4 << 20});
  return memory;
}

std::vector<Path> paths(DType dtype) {
  std::vector<Path> all;
  all.push_back({"host::matmul", [](const Product& p) {
                   host::run(kernel::Matmul{.c_MN = p.c, .a_MK = p.a, .b_KN = p.b}, scratch());
                 }});
  if (dtype == DType::f32 || host::onednn::multiplies_bf16()) {
    all.push_back({"primitive", [](const Product& p) {
                     host::onednn::matmul({p.c, p.a, p.b}, scratch());
                   }});
  }
  if (dtype == DType::f32) {
    all.push_back({"sgemm", [](const Product& p) {
                     host::onednn::sgemm(p.c, p.a, p.b, Accumulate::overwrite);
                   }});
  }
  return all;
}

// Forward, gradient of the input and gradient of the weight of each linear, in the order of a step.
std::vector<Family> linears(const Job& job) {
  const auto& m = job.model;
  std::vector<Family> families;
  const auto add = [&](const char* name, std::int64_t in, std::int64_t out, std::int64_t layers) {
    Family y{std::string(name) + " y = x W'", {}}, dx{std::string(name) + " dx = dy W", {}},
        dw{std::string(name) + " dW = dy' x", {}};
    for (std::int64_t i = 0; i < layers; ++i) {
      const auto x = take(job.dtype, {m.rows(), in}), w = take(job.dtype, {out, in}),
                 out_y = take(job.dtype, {m.rows(), out}), dy = take(job.dtype, {m.rows(), out}),
                 grad_x = take(job.dtype, {m.rows(), in}), grad_w = take(DType::f32, {out, in});
      randomise(x, 1, 1);
      randomise(w, 0.04, 2);
      randomise(dy, 1, 3);
      y.products.push_back({out_y, x, ConstView(w).transposed()});
      dx.products.push_back({grad_x, dy, w});
      dw.products.push_back({grad_w, ConstView(dy).transposed(), x});
    }
    families.insert(families.end(), {y, dx, dw});
  };
  add("qkv", m.C, 3 * m.C, m.layers);
  add("proj", m.C, m.C, m.layers);
  add("fc", m.C, 4 * m.C, m.layers);
  add("fc_proj", 4 * m.C, m.C, m.layers);
  add("head", m.C, m.V, 1);
  return families;
}

// The six products of each head of one layer; a head is one task. bf16 heads are widened first.
class Attention {
 public:
  explicit Attention(const Job& job) : m_(job.model), dtype_(job.dtype) {
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      qkv_.push_back(take(dtype_, {m_.rows(), 3 * m_.C}));
      out_.push_back(take(dtype_, {m_.rows(), m_.C}));
      randomise(qkv_.back(), 1, 4);
      randomise(out_.back(), 1, 5);
    }
    const auto T = m_.T, D = m_.head_dim();
    for (int t = 0; t < omp_get_max_threads(); ++t) {
      local_.push_back(take(DType::f32, {3 * T * T + 8 * T * D}));
      randomise(local_.back(), 1, 6);
    }
  }

  void run() {
    for (std::size_t layer = 0; layer < qkv_.size(); ++layer) {
#pragma omp parallel for
      for (std::int64_t i = 0; i < m_.B * m_.heads; ++i) {
        head(layer, i / m_.heads, i % m_.heads);
      }
    }
  }

 private:
  void head(std::size_t layer, std::int64_t b, std::int64_t h) {
    const auto T = m_.T, D = m_.head_dim();
    float* free = pointer<float>(local_[static_cast<std::size_t>(omp_get_thread_num())]);
    const auto local = [&](std::int64_t cols) {
      const View v(reinterpret_cast<std::byte*>(free), DType::f32, {T, cols});
      free += v.count();
      return v;
    };
    const auto part = [&](const View& packed, std::int64_t column) {
      const auto rows = packed.slice(0, b * T, T).slice(1, column + h * D, D);
      if (dtype_ == DType::f32) return rows;
      const auto wide = local(D);
      for (std::int64_t t = 0; t < T; ++t) {
        const auto* from = pointer<bf16>(rows) + t * rows.stride[0];
        for (std::int64_t d = 0; d < D; ++d) {
          pointer<float>(wide)[t * D + d] = static_cast<float>(from[d]);
        }
      }
      return wide;
    };
    const auto multiply = [](const View& c, const View& a, const View& b_view) {
      host::onednn::sgemm(c, a, b_view, Accumulate::overwrite);
    };
    const auto p = local(T), dp = local(T), o = local(D), dq = local(D), dk = local(D),
               dv = local(D);
    const auto q = part(qkv_[layer], 0), k = part(qkv_[layer], m_.C),
               v = part(qkv_[layer], 2 * m_.C), d_o = part(out_[layer], 0);
    multiply(p, q, k.transposed());
    multiply(o, p, v);
    multiply(dv, p.transposed(), d_o);
    multiply(dp, d_o, v.transposed());
    multiply(dq, dp, k);
    multiply(dk, dp.transposed(), q);
  }

  Model m_;
  DType dtype_;
  std::vector<View> qkv_, out_, local_;
};

// Decoupled decay as in the step: reads w, m, v, g, writes w, m, v and for bf16 the copy of w.
class Adam {
 public:
  explicit Adam(const Job& job) : n_(job.model.parameters()), copies_(job.dtype == DType::bf16) {
    for (auto* v : {&w_, &m_, &v_, &g_}) {
      *v = take(DType::f32, {n_});
      randomise(*v, 0.01, 7);
    }
    for (std::int64_t i = 0; i < n_; ++i) pointer<float>(v_)[i] = 1e-4F;
    if (copies_) copy_ = take(DType::bf16, {n_});
  }

  double bytes() const { return static_cast<double>(n_) * (copies_ ? 30 : 28); }

  void run() const {
    float *w = pointer<float>(w_), *m = pointer<float>(m_), *v = pointer<float>(v_);
    const float* g = pointer<float>(g_);
    bf16* copy = copies_ ? pointer<bf16>(copy_) : nullptr;
    constexpr std::int64_t chunk = 1 << 14;
#pragma omp parallel for
    for (std::int64_t begin = 0; begin < n_; begin += chunk) {
      const auto end = std::min(n_, begin + chunk);
      for (auto i = begin; i < end; ++i) {
        m[i] = 0.9F * m[i] + 0.1F * g[i];
        v[i] = 0.999F * v[i] + 0.001F * g[i] * g[i];
        w[i] -= 1e-6F * (m[i] / (std::sqrt(v[i]) + 1e-8F) + 0.1F * w[i]);
      }
      if (copy != nullptr) {
        for (auto i = begin; i < end; ++i) copy[i] = bf16(w[i]);
      }
    }
  }

  // Read and written bytes a second of a copy of the same arrays.
  double copy_bandwidth() const {
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      const auto t = seconds();
#pragma omp parallel for
      for (int part = 0; part < 64; ++part) {
        const auto begin = n_ * part / 64, end = n_ * (part + 1) / 64;
        std::memcpy(pointer<float>(m_) + begin, pointer<float>(g_) + begin,
                    static_cast<std::size_t>(end - begin) * sizeof(float));
      }
      best = std::max(best, static_cast<double>(n_) * 8 / (seconds() - t));
    }
    return best;
  }

 private:
  std::int64_t n_;
  bool copies_;
  View w_, m_, v_, g_, copy_;
};

template <class Body>
std::vector<double> times(const Body& body, double budget_s) {
  for (int i = 0; i < warm_up; ++i) body();
  std::vector<double> t;
  for (const auto begin = seconds(); t.size() < 5 || seconds() - begin < budget_s;) {
    const auto start = seconds();
    body();
    t.push_back(seconds() - start);
  }
  return t;
}

void measure(const Job& job) {
  const auto& m = job.model;
  const auto families = linears(job);
  Attention attention(job);
  const Adam adam(job);
  const auto candidates = paths(job.dtype);

  fmt::print("{} {}, B={} T={}, {} threads\n{:24}{:>20}", m.name, name_of(job.dtype), m.B, m.T,
             omp_get_max_threads(), "GFLOP/s", "[M, N, K]");
  for (const auto& path : candidates) fmt::print("{:>14}", path.name);
  fmt::print("\n");
  std::vector<const Path*> chosen;
  for (const auto& family : families) {
    const auto& one = family.products[0];
    const auto M = one.c.extent[0], N = one.c.extent[1], K = one.a.extent[1];
    fmt::print("{:24}{:>20}", family.name, fmt::format("{} {} {}", M, N, K));
    const Path* best = nullptr;
    double best_time = 0;
    for (const auto& path : candidates) {
      const auto t = times(
          [&] {
            for (const auto& p : family.products) path.run(p);
          },
          0.15);
      const auto least = *std::min_element(t.begin(), t.end());
      const auto work =
          2.0 * static_cast<double>(M * N * K) * static_cast<double>(family.products.size());
      fmt::print("{:14.0f}", work / least / 1e9);
      if (best == nullptr || least < best_time) best = &path, best_time = least;
    }
    fmt::print("   {}\n", best->name);
    chosen.push_back(best);
  }

  // One step's worth at a time, so that caches are as they would be.
  std::vector<double> linear, heads, update, step;
  for (const auto begin = seconds();
       step.size() < 7 || (seconds() - begin < 2.0 && step.size() < 500);) {
    const auto t0 = seconds();
    for (std::size_t i = 0; i < families.size(); ++i) {
      for (const auto& p : families[i].products) chosen[i]->run(p);
    }
    const auto t1 = seconds();
    attention.run();
    const auto t2 = seconds();
    adam.run();
    const auto t3 = seconds();
    linear.push_back(t1 - t0), heads.push_back(t2 - t1), update.push_back(t3 - t2);
    step.push_back(t3 - t0);
  }
  const auto copy = adam.copy_bandwidth(), stream = adam.bytes() / median(update);
  fmt::print(
      "products {:.2f} ms + attention's {:.2f} ms + AdamW {:.2f} ms ({:.1f} GB/s, a copy {:.1f})\n",
      median(linear) * 1e3, median(heads) * 1e3, median(update) * 1e3, stream / 1e9, copy / 1e9);
  fmt::print("floor {} {} {:.2f} ms, least {:.2f} ms, {:.0f} GFLOP/s\n", m.name, name_of(job.dtype),
             median(step) * 1e3, *std::min_element(step.begin(), step.end()) * 1e3,
             m.flops() / median(step) / 1e9);
}

}  // namespace

int main(int argc, char** argv) try {
  measure(parse(argc, argv));
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
