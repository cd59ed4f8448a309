// Logits of whole models against a forward pass in plain loops, with the formulas of their papers:
// GPT-2 (Radford et al. 2019), Llama (Touvron et al. 2023), and what Llama 3 and Qwen add.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

#include "kernels/ref/ref.hpp"
#include "tests/support/contract.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using Row = std::vector<double>;

class PlainModel {
 public:
  PlainModel(const ModelConfig& config, std::map<std::string, Row> weights)
      : c(config), w(std::move(weights)) {}

  // Of the token behind the last.
  Row logits(const std::vector<std::int32_t>& ids) const {
    std::vector<Row> x_T;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      Row x = row(w.at("embedding.weight"), static_cast<std::size_t>(ids[t]), width());
      if (c.scale_embedding)
        for (auto& v : x) v *= std::sqrt(static_cast<double>(c.width));
      for (auto& v : x) v *= c.embedding_scale;
      if (c.positions == Positions::learned) add(x, row(w.at("positions.weight"), t, width()));
      x_T.push_back(std::move(x));
    }
    for (std::int64_t l = 0; l < c.layers; ++l) {
      const auto block = "blocks." + std::to_string(l) + ".";
      const bool all = c.window_layers.empty() ||
                       std::count(c.window_layers.begin(), c.window_layers.end(), l) > 0;
      const bool windowed = all && c.window > 0;
      PlainModel own = *this;
      if (windowed && c.window_rope_theta > 0) {
        own.c.rope_theta = c.window_rope_theta;
        own.c.rope_scaling = RopeScaling::none;
      }
      if (std::count(c.nope_layers.begin(), c.nope_layers.end(), l) > 0)
        own.c.positions = Positions::learned;
      const auto mixed_T = own.attention(block, x_T, windowed ? c.window : c.max_context);
      for (std::size_t t = 0; t < x_T.size(); ++t) {
        add_branch(x_T[t], norm_where(block + "attention_out_norm",
                                      linear(block + "projection", mixed_T[t])));
        add_branch(x_T[t], norm_where(block + "ffn_out_norm",
                                      feed_forward(block, norm_where(block + "ffn_norm", x_T[t]))));
      }
    }
    auto logits =
        product(w.at(c.tied ? "embedding.weight" : "head.weight"), norm("final_norm", x_T.back()));
    for (auto& z : logits) z = capped(c.logit_scale * z, c.logit_softcap);
    return logits;
  }

 private:
  static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }
  std::size_t width() const { return static_cast<std::size_t>(c.width); }

  static Row row(const Row& all, std::size_t i, std::size_t n) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * n);
    return {begin, begin + static_cast<std::ptrdiff_t>(n)};
  }
  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  void add_branch(Row& x, const Row& branch) const {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += c.residual_scale * branch[i];
  }
  static Row product(const Row& matrix, const Row& x) {
    Row y;
    for (std::size_t o = 0; o < matrix.size() / x.size(); ++o) {
      const auto line = row(matrix, o, x.size());
      y.push_back(std::inner_product(x.begin(), x.end(), line.begin(), 0.0));
    }
    return y;
  }
  Row linear(const std::string& name, const Row& x) const {
    auto y = product(w.at(name + ".weight"), x);
    if (const auto bias = w.find(name + ".bias"); bias != w.end()) add(y, bias->second);
    return y;
  }
  // Of layers: less their mean. Both: by the root of their mean square and epsilon.
  Row norm(const std::string& name, Row x, NormKind kind) const {
    const auto n = static_cast<double>(x.size());
    const double mean = kind == NormKind::rms ? 0 : std::accumulate(x.begin(), x.end(), 0.0) / n;
    double squares = 0;
    for (auto& v : x) v -= mean, squares += v * v;
    const auto& weight = w.at(name + ".weight");
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] *= weight[i] / std::sqrt(squares / n + c.norm_eps);
    if (const auto bias = w.find(name + ".bias"); bias != w.end()) add(x, bias->second);
    return x;
  }
  Row norm_where(const std::string& name, Row x) const {
    return w.contains(name + ".weight") ? norm(name, std::move(x)) : x;
  }
  Row norm(const std::string& name, Row x) const { return norm(name, std::move(x), c.norm); }

  // Channels of a head that turn.
  std::int64_t turning() const { return c.rotary_dim > 0 ? c.rotary_dim : c.head_dim; }
  double frequency(std::int64_t pair) const {
    const double f =
        std::pow(c.rope_theta, -2.0 * static_cast<double>(pair) / static_cast<double>(turning()));
    if (c.rope_scaling == RopeScaling::yarn) {
      // How far the pair is from one that turns beta_fast times towards one that turns beta_slow
      // times, in the logarithm of turns: pairs are not rounded.
      const double fast = std::log(turns(f) / c.rope_beta_fast),
                   all = std::log(c.rope_beta_slow / c.rope_beta_fast);
      const double divided = std::clamp(fast / all, 0.0, 1.0);
      return f * (1 - divided) + f / c.rope_factor * divided;
    }
    if (c.rope_scaling == RopeScaling::linear) return f / c.rope_factor;
    if (c.rope_scaling != RopeScaling::llama3) return f;
    const double low = c.rope_low_freq_factor, high = c.rope_high_freq_factor;
    const double kept = std::clamp((turns(f) - low) / (high - low), 0.0, 1.0);
    return f * (kept + (1 - kept) / c.rope_factor);
  }
  double turns(double frequency) const {
    return static_cast<double>(c.rope_original_context) * frequency / (2 * std::numbers::pi);
  }
  // Channel i of the first half of a head with channel i of the second, where they turn.
  void turn(Row& head, std::size_t position) const {
    const auto half = head.size() / 2;
    for (std::size_t i = 0; i < static_cast<std::size_t>(turning() / 2); ++i) {
      const double angle = static_cast<double>(position) * frequency(static_cast<std::int64_t>(i));
      const double a = head[i], b = head[half + i];
      const double size =
          c.rope_scaling == RopeScaling::yarn ? 1 + std::log(c.rope_factor) / 10 : 1;
      head[i] = size * (a * std::cos(angle) - b * std::sin(angle));
      head[half + i] = size * (b * std::cos(angle) + a * std::sin(angle));
    }
  }

  std::vector<Row> attention(const std::string& block, const std::vector<Row>& x_T,
                             std::int64_t window) const {
    const auto D = static_cast<std::size_t>(c.head_dim), H = static_cast<std::size_t>(c.heads),
               G = static_cast<std::size_t>(c.kv_heads);
    std::vector<std::vector<Row>> heads_T;  // of queries, keys, values
    for (std::size_t t = 0; t < x_T.size(); ++t) {
      const auto packed = linear(block + "qkv", norm_where(block + "attention_norm", x_T[t]));
      const bool over_width = c.qk_norm && c.qk_norm_over == QkNormOver::width;
      const auto all = [&](std::size_t first, std::size_t heads, const char* name) {
        const auto begin = packed.begin() + static_cast<std::ptrdiff_t>(first * D);
        return norm(block + name, {begin, begin + static_cast<std::ptrdiff_t>(heads * D)},
                    NormKind::rms);
      };
      const Row queries = over_width ? all(0, H, "q_norm") : Row(),
                keys = over_width ? all(H, G, "k_norm") : Row();
      heads_T.emplace_back();
      for (std::size_t h = 0; h < H + 2 * G; ++h) {
        auto head = row(packed, h, D);
        if (over_width && h < H + G)
          head = h < H ? row(queries, h, D) : row(keys, h - H, D);
        else if (c.qk_norm && h < H + G)
          head = norm(block + (h < H ? "q_norm" : "k_norm"), head, NormKind::rms);
        if (c.positions == Positions::rotary && h < H + G) turn(head, t);
        heads_T.back().push_back(std::move(head));
      }
    }
    std::vector<Row> mixed_T;
    for (std::size_t t = 0; t < x_T.size(); ++t) {
      mixed_T.emplace_back();
      for (std::size_t h = 0; h < H; ++h) {
        const auto group = h / (H / G);
        Row mixed(D, 0.0);
        double sum = c.attention_sinks ? std::exp(w.at(block + "attention_sinks.weight")[h]) : 0;
        for (std::size_t s = 0; s <= t; ++s) {
          if (static_cast<std::int64_t>(t - s) >= window) continue;
          const auto &q = heads_T[t][h], &k = heads_T[s][H + group], &v = heads_T[s][H + G + group];
          const double scale =
              c.attention_scale > 0 ? c.attention_scale : 1 / std::sqrt(static_cast<double>(D));
          const double product = std::inner_product(q.begin(), q.end(), k.begin(), 0.0);
          const double score = std::exp(capped(product * scale, c.attention_softcap));
          sum += score;
          for (std::size_t d = 0; d < D; ++d) mixed[d] += score * v[d];
        }
        for (const double m : mixed) mixed_T.back().push_back(m / sum);
      }
    }
    return mixed_T;
  }

  // The chosen experts are those with the largest logits. Their weights are the softmax of these.
  Row feed_forward(const std::string& block, const Row& x) const {
    if (!w.contains(block + "router.weight")) return mlp(block, x);
    const auto logits = linear(block + "router", x);
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](auto a, auto b) { return logits[a] > logits[b]; });
    order.resize(static_cast<std::size_t>(c.experts_per_token));
    double sum = 0;
    for (const auto e : order) sum += std::exp(logits[e]);
    Row y(x.size(), 0.0);
    for (const auto e : order) {
      auto of_expert = mlp(block + "experts." + std::to_string(e) + ".", x);
      for (auto& v : of_expert) v *= std::exp(logits[e]) / sum;
      add(y, of_expert);
    }
    return y;
  }

  Row mlp(const std::string& block, const Row& x) const {
    auto h = linear(block + "ffn_in", x);
    const auto gelu = [](double v) {
      return 0.5 * v *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
    };
    if (c.activation == ActivationKind::gelu) {
      for (auto& v : h) v = gelu(v);
    } else if (c.activation == ActivationKind::swiglu_clamped) {
      const auto half = h.size() / 2;
      for (std::size_t i = 0; i < half; ++i) {
        const double gate = std::min(h[i], 7.0), up = std::clamp(h[half + i], -7.0, 7.0);
        h[i] = gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
      }
      h.resize(half);
    } else {
      const auto half = h.size() / 2;
      const bool silu = c.activation == ActivationKind::swiglu;
      for (std::size_t i = 0; i < half; ++i)
        h[i] = h[half + i] * (silu ? h[i] / (1 + std::exp(-h[i])) : gelu(h[i]));
      h.resize(half);
    }
    return linear(block + "ffn_out", h);
  }

  ModelConfig c;
  std::map<std::string, Row> w;
};

TEST(Logits, AreThoseOfThePapers) {
  auto yarn = test::tiny_qwen();
  yarn.rope_scaling = RopeScaling::yarn;
  yarn.rope_factor = 3;
  yarn.rope_original_context = 40;
  yarn.rope_beta_fast = 4;
  yarn.rope_beta_slow = 0.25;
  yarn.rope_truncate = false;
  auto mistral = test::tiny_llama();
  mistral.window = 3;
  auto some = test::tiny_gpt2();
  some.window = 2;
  some.window_layers = {1};
  some.attention_sinks = true;
  auto both = test::tiny_gpt2();
  both.norm_place = NormPlace::both;
  // Of three pairs two turn, by frequencies of which one is divided in part; what does not turn
  // keeps its size.
  auto partial_yarn = yarn;
  partial_yarn.rotary_dim = 4;
  auto partial_windows = test::tiny_gemma3();
  partial_windows.head_dim = 8;
  partial_windows.rotary_dim = 4;
  auto no_window_turns = partial_windows;
  no_window_turns.nope_layers = {0};
  auto clamped = test::tiny_llama();
  clamped.activation = ActivationKind::swiglu_clamped;
  clamped.bias = true;
  for (const auto& c :
       {test::tiny_gpt_oss(), clamped, test::tiny_gpt2(), test::tiny_llama(), test::tiny_qwen(),
        test::tiny_olmo2(), both, test::tiny_gemma2(), test::tiny_gemma3(), test::tiny_granite(),
        test::tiny_glm4(), yarn, mistral, some, partial_yarn, partial_windows, no_window_turns}) {
    Ref ref;
    const Workspace scratch(ref);
    Trainer trainer(ref, {}, test::setup_of(c, test::adamw(), DType::f64));
    auto& store = trainer.store();
    store.initialize(3, 1);
    std::map<std::string, Row> weights;
    Draw draw(1, 1);
    for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
      const auto& p = store.spec().params[i];
      auto& values = weights[p.name];
      // Some inputs of clamped gates are beyond their limits.
      const bool far =
          c.activation == ActivationKind::swiglu_clamped && p.name.ends_with("ffn_in.bias");
      for (std::int64_t n = 0; n < p.shape.count(); ++n)
        values.push_back(p.init_mean + (far ? 20 : 1) * draw.real(-0.5, 0.5));
      test::write<double>(store, ParamId::at(i), values);
    }
    const std::vector<std::int32_t> ids{3, 1, 4, 1, 5, 9};

    const auto wanted = PlainModel(c, weights).logits(ids), found = trainer.logits(ids);

    ASSERT_EQ(found.size(), wanted.size());
    // A normed row has the length of its weights, up to 1.5, and all that was added on its way in
    // blocks moves it by rounding; a logit's terms add up to that by a row of the head.
    const auto terms = c.layers * (3 * c.width + 2 * c.ffn_width + 2 * c.max_context) + c.width;
    const double bound = 2 * sum_error(DType::f64, terms, 1.5 * 0.5 * static_cast<double>(c.width));
    for (std::size_t v = 0; v < wanted.size(); ++v) EXPECT_NEAR(found[v], wanted[v], bound);
  }
}

}  // namespace
}  // namespace trireme
