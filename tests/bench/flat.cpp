// A GPT-2 training step written out flat: no tape, no store, plain arrays, residual and norm in one
// loop. It shows what a step can reach here, and where the time goes. It trains on
// batches of a noisy walk over the vocabulary; the loss it prints must fall towards log 8.
#include <map>

#include "kernels/host/kernels.hpp"
#include "tests/bench/flat_attention.hpp"

using namespace trireme;
using namespace trireme::bench;

namespace {

// Seconds by class within a step, kept for every step.
class Watch {
 public:
  template <class Body>
  void time(const char* what, const Body& body) {
    const auto begin = seconds();
    body();
    spent_[what] += seconds() - begin;
  }
  void end_step() {
    for (auto& [what, spent] : spent_) {
      steps_[what].push_back(spent);
      spent = 0;
    }
  }
  void reset() { steps_.clear(); }
  const std::map<std::string, std::vector<double>>& steps() const { return steps_; }

 private:
  std::map<std::string, double> spent_;
  std::map<std::string, std::vector<double>> steps_;
};

template <class T>
class Step {
 public:
  explicit Step(const Model& m) : m_(m), attention_(m) {
    layout();
    const Shape flat{parameters_};
    for (auto* v : {&master_, &m1_, &m2_, &grad_}) *v = take(DType::f32, flat);
    weights_ = sizeof(T) == 4 ? master_ : take(type, flat);
    initialise();
    const auto R = m_.rows();
    const auto matrix = [&](Size cols) { return take(type, {R, cols}); };
    x_.push_back(matrix(m_.C));
    for (Size l = 0; l <= m_.layers; ++l) {
      mid_.push_back(matrix(m_.C)), x_.push_back(matrix(m_.C));
      h1_.push_back(matrix(m_.C)), h2_.push_back(matrix(m_.C)), att_.push_back(matrix(m_.C));
      qkv_.push_back(matrix(3 * m_.C));
      pre_.push_back(matrix(4 * m_.C)), act_.push_back(matrix(4 * m_.C));
      statistics_.push_back(take(DType::f32, {4, R}));
      lse_.push_back(take(DType::f32, {m_.heads, R}));
    }
    branch_ = matrix(m_.C), dx_ = matrix(m_.C), dh_ = matrix(m_.C);
    dqkv_ = matrix(3 * m_.C), dpre_ = matrix(4 * m_.C);
    logits_ = take(type, {std::min<Size>(R, 256), m_.V});
    scratch_ = take(DType::f32, {4 << 20});
  }

  // A new batch: each id leads to one of eight.
  void draw() {
    ids_.clear(), targets_.clear();
    const auto V = static_cast<std::uint64_t>(m_.V);
    for (Size r = 0; r < m_.rows(); ++r) {
      const auto random =
          hash64(11, static_cast<std::uint64_t>(count_), static_cast<std::uint64_t>(r));
      const auto id = r % m_.T == 0 ? random % V : static_cast<std::uint64_t>(targets_.back());
      ids_.push_back(static_cast<std::int32_t>(id));
      targets_.push_back(static_cast<std::int32_t>((id * 5 + random / V % 8) % V));
    }
  }

  // Mean loss of the batch before the update.
  double run() {
    forward();
    const double loss = head();
    backward();
    update();
    watch_.end_step();
    return loss / static_cast<double>(m_.rows());
  }
  Watch& watch() { return watch_; }

 private:
  static constexpr DType type = dtype_of<T>;
  struct Layer {
    Size norm1_w, norm1_b, qkv_w, qkv_b, proj_w, proj_b, norm2_w, norm2_b, fc_w, fc_b, out_w, out_b;
  };

  void layout() {
    const auto next = [&](Size count) {
      const auto at = parameters_;
      parameters_ += (count + 15) / 16 * 16;
      return at;
    };
    const auto C = m_.C;
    table_ = next(m_.V * C), positions_ = next(m_.T * C);
    for (Size l = 0; l < m_.layers; ++l) {
      layer_.push_back({next(C), next(C), next(3 * C * C), next(3 * C), next(C * C), next(C),
                        next(C), next(C), next(4 * C * C), next(4 * C), next(4 * C * C), next(C)});
    }
    norm_w_ = next(C), norm_b_ = next(C);
  }

  void initialise() {
    randomise(master_, 0.035, 3);  // of deviation 0.02
    float* w = pointer<float>(master_);
    const auto set = [&](Size at, Size n, float value) { std::fill_n(w + at, n, value); };
    const auto C = m_.C;
    for (const auto& p : layer_) {
      set(p.norm1_w, C, 1), set(p.norm2_w, C, 1), set(p.norm1_b, C, 0), set(p.norm2_b, C, 0);
      set(p.qkv_b, 3 * C, 0), set(p.proj_b, C, 0), set(p.fc_b, 4 * C, 0), set(p.out_b, C, 0);
    }
    set(norm_w_, C, 1), set(norm_b_, C, 0);
    if constexpr (sizeof(T) < 4) {
      for (Size i = 0; i < parameters_; ++i) pointer<T>(weights_)[i] = T(w[i]);
    }
  }

  View part(const View& flat, Size at, const Shape& s) const {
    return {flat.data + at * static_cast<Size>(bytes_of(flat.dtype)), flat.dtype, s};
  }
  T* weight(Size at) { return pointer<T>(weights_) + at; }
  float* gradient(Size at) { return pointer<float>(grad_) + at; }
  float* statistic(Size layer, Size row) {
    return pointer<float>(statistics_[static_cast<std::size_t>(layer)]) + row * m_.rows();
  }

  // y = x W' + b
  void linear(const View& y, const View& x, Size w, Size b) {
    watch_.time("products", [&] {
      const auto in = x.extent[1], out = y.extent[1];
      Epilogue epilogue;
      if (b >= 0) epilogue.bias_N = part(weights_, b, {out});
      host::run(kernel::Matmul{.c_MN = y,
                               .a_MK = x,
                               .b_KN = part(weights_, w, {out, in}).transposed(),
                               .epilogue = epilogue},
                scratch_);
    });
  }
  // dx = dy W, dW = dy' x, db = column sums of dy
  void linear_grad(const View& dx, const View& dy, const View& x, Size w, Size b, Accumulate how) {
    const auto in = x.extent[1], out = dy.extent[1];
    watch_.time("products", [&] {
      host::run(kernel::Matmul{.c_MN = dx, .a_MK = dy, .b_KN = part(weights_, w, {out, in})},
                scratch_);
      host::run(
          kernel::Matmul{
              .c_MN = part(grad_, w, {out, in}), .a_MK = dy.transposed(), .b_KN = x, .how = how},
          scratch_);
    });
    if (b < 0) return;
    watch_.time("bias", [&] { column_sum(gradient(b), pointer<T>(dy), dy.extent[0], out); });
  }
  void norm(const View& y, const View& sum, const View& x, const View& branch, Size w, Size b,
            Size layer, Size row) {
    watch_.time("norms", [&] {
      add_and_norm(pointer<T>(y), statistic(layer, row), statistic(layer, row + 1), pointer<T>(sum),
                   pointer<T>(x), pointer<T>(branch), weight(w), weight(b), m_.rows(), m_.C);
    });
  }
  void norm_back(const View& dy, const View& x, Size w, Size b, Size layer, Size row) {
    watch_.time("norms", [&] {
      norm_grad(pointer<T>(dx_), gradient(w), gradient(b), pointer<T>(dy), pointer<T>(x), weight(w),
                statistic(layer, row), statistic(layer, row + 1), m_.rows(), m_.C);
    });
  }

  void forward() {
    const auto C = m_.C;
    watch_.time("embedding", [&] {
#pragma omp parallel for
      for (Size r = 0; r < m_.rows(); ++r) {
        const T* a = weight(table_ + ids_[static_cast<std::size_t>(r)] * C);
        const T* b = weight(positions_ + r % m_.T * C);
        T* to = pointer<T>(x_[0]) + r * C;
        for (Size i = 0; i < C; ++i) to[i] = T(wide(a[i]) + wide(b[i]));
      }
    });
    View branch;
    for (std::size_t l = 0; l < layer_.size(); ++l) {
      const auto& p = layer_[l];
      const auto L = static_cast<Size>(l);
      norm(h1_[l], x_[l], l == 0 ? x_[0] : mid_[l - 1], branch, p.norm1_w, p.norm1_b, L, 0);
      linear(qkv_[l], h1_[l], p.qkv_w, p.qkv_b);
      watch_.time("attention",
                  [&] { attention_.forward(att_[l], pointer<float>(lse_[l]), qkv_[l]); });
      linear(branch_, att_[l], p.proj_w, p.proj_b);
      norm(h2_[l], mid_[l], x_[l], branch_, p.norm2_w, p.norm2_b, L, 2);
      linear(pre_[l], h2_[l], p.fc_w, p.fc_b);
      watch_.time("gelu", [&] { gelu(pointer<T>(act_[l]), pointer<T>(pre_[l]), pre_[l].count()); });
      linear(branch_, act_[l], p.out_w, p.out_b);
      branch = branch_;
    }
    const auto last = layer_.size();
    norm(h1_[last], x_[last], mid_[last - 1], branch, norm_w_, norm_b_, m_.layers, 0);
  }

  // Loss, dh and the table's gradient, 256 rows of logits at a time.
  double head() {
    double loss = 0;
    const auto R = m_.rows(), chunk = logits_.extent[0];
    for (Size r = 0; r < R; r += chunk) {
      const auto n = std::min(chunk, R - r);
      const auto h = h1_.back().slice(0, r, n), logits = logits_.slice(0, 0, n);
      linear(logits, h, table_, -1);
      watch_.time("loss", [&] {
        loss += cross_entropy(pointer<T>(logits), targets_.data() + r, 1.0F / static_cast<float>(R),
                              n, m_.V);
      });
      linear_grad(dh_.slice(0, r, n), logits, h, table_, -1,
                  r == 0 ? Accumulate::overwrite : Accumulate::add);
    }
    return loss;
  }

  void backward() {
    std::fill_n(pointer<T>(dx_), dx_.count(), T(0.0F));
    norm_back(dh_, x_.at(layer_.size()), norm_w_, norm_b_, m_.layers, 0);
    for (auto l = layer_.size(); l-- > 0;) {
      const auto& p = layer_[l];
      const auto L = static_cast<Size>(l);
      linear_grad(dpre_, dx_, act_[l], p.out_w, p.out_b, Accumulate::overwrite);
      watch_.time("gelu",
                  [&] { gelu_grad(pointer<T>(dpre_), pointer<T>(pre_[l]), dpre_.count()); });
      linear_grad(dh_, dpre_, h2_[l], p.fc_w, p.fc_b, Accumulate::overwrite);
      norm_back(dh_, mid_[l], p.norm2_w, p.norm2_b, L, 2);
      linear_grad(dh_, dx_, att_[l], p.proj_w, p.proj_b, Accumulate::overwrite);
      watch_.time("attention", [&] {
        attention_.backward(dqkv_, dh_, att_[l], pointer<float>(lse_[l]), qkv_[l]);
      });
      linear_grad(dh_, dqkv_, h1_[l], p.qkv_w, p.qkv_b, Accumulate::overwrite);
      norm_back(dh_, x_[l], p.norm1_w, p.norm1_b, L, 0);
    }
    watch_.time("embedding", [&] {
      const auto C = m_.C;
      std::fill_n(gradient(positions_), m_.T * C, 0.0F);
      for (Size r = 0; r < m_.rows(); ++r) {
        const T* d = pointer<T>(dx_) + r * C;
        float* a = gradient(table_ + ids_[static_cast<std::size_t>(r)] * C);
        float* b = gradient(positions_ + r % m_.T * C);
        for (Size i = 0; i < C; ++i) a[i] += wide(d[i]), b[i] += wide(d[i]);
      }
    });
  }

  void update() {
    double norm = 0;
    watch_.time("norm of gradients",
                [&] { norm = std::sqrt(sum_squares(gradient(0), parameters_)); });
    watch_.time("optimizer", [&] {
      ++count_;
      const auto corrected = [&](double beta) {
        return static_cast<float>(1.0 / (1.0 - std::pow(beta, count_)));
      };
      const Rates k{1e-3F, static_cast<float>(std::min(1.0, 1.0 / (norm + 1e-6))), corrected(0.9),
                    corrected(0.99)};
      adamw(pointer<float>(master_), pointer<float>(m1_), pointer<float>(m2_), weight(0),
            gradient(0), parameters_, k);
    });
  }

  Model m_;
  Attention<T> attention_;
  Watch watch_;
  Size parameters_ = 0, table_ = 0, positions_ = 0, norm_w_ = 0, norm_b_ = 0;
  int count_ = 0;
  std::vector<Layer> layer_;
  View master_, m1_, m2_, grad_, weights_, branch_, dx_, dh_, dqkv_, dpre_, logits_, scratch_;
  std::vector<View> x_, mid_, h1_, h2_, att_, qkv_, pre_, act_, statistics_, lse_;
  std::vector<std::int32_t> ids_, targets_;
};

template <class T>
void measure(const Model& m) {
  Step<T> step(m);
  step.draw();
  const double first = step.run();
  step.draw();
  step.run();
  step.watch().reset();
  std::vector<double> times;
  double last = 0;
  for (const auto begin = seconds();
       times.size() < 7 || (seconds() - begin < 3.0 && times.size() < 300);) {
    step.draw();
    const auto start = seconds();
    last = step.run();
    times.push_back(seconds() - start);
  }
  const auto middle = median(times);
  fmt::print("{} {}, B={} T={}, {} threads: median ms by class\n", m.name, name_of(dtype_of<T>),
             m.B, m.T, omp_get_max_threads());
  for (const auto& [what, spent] : step.watch().steps()) {
    fmt::print("  {:20}{:10.3f}\n", what, median(spent) * 1e3);
  }
  fmt::print("loss {:.4f} -> {:.4f} after {} steps\n", first, last, times.size() + 2);
  fmt::print("flat {} {} {:.2f} ms, least {:.2f} ms, {:.0f} GFLOP/s, {:.0f} tokens/s\n", m.name,
             name_of(dtype_of<T>), middle * 1e3,
             *std::min_element(times.begin(), times.end()) * 1e3, m.flops() / middle / 1e9,
             static_cast<double>(m.rows()) / middle);
}

}  // namespace

int main(int argc, char** argv) try {
  const auto job = parse(argc, argv);
  if (job.dtype == DType::f32) {
    measure<float>(job.model);
  } else {
    measure<bf16>(job.model);
  }
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
