#include "lib/model/feed_forward.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "lib/model/product.hpp"
#include "lib/ops/experts.hpp"
#include "lib/ops/linear.hpp"
#include "lib/ops/mlp.hpp"
#include "lib/ops/pointwise.hpp"
#include "lib/ops/router.hpp"

namespace trireme {

namespace {

GateFunction gate_of(const ModelConfig& c) {
  return std::get<GateFunction>(function_of(c.activation));
}
Activation activation_of(const ModelConfig& c) {
  return std::get<Activation>(function_of(c.activation));
}

class PlainMlp final : public FeedForward {
 public:
  PlainMlp(const ModelSpec& s, const BlockParams& p)
      : mlp_(make_linear(s, p.ffn_in, p.ffn_in_bias), activation_of(s.config),
             make_linear(s, p.ffn_out, p.ffn_out_bias)) {}
  Value forward(Tape& tape, const Run& run, Value h) const override {
    return tape.apply(run, mlp_, std::move(h));
  }

 private:
  ops::Mlp mlp_;
};

// An MLP without a gate, with adapters. Its products are therefore separate ops.
class AdaptedPlainMlp final : public FeedForward {
 public:
  AdaptedPlainMlp(const ModelSpec& s, const BlockParams& p)
      : in_(make_product(s, p.ffn_in, p.ffn_in_bias)),
        out_(make_product(s, p.ffn_out, p.ffn_out_bias)),
        activate_(activation_of(s.config)) {}
  Value forward(Tape& tape, const Run& run, Value h) const override {
    h = tape.apply(run, *in_, std::move(h));
    h = tape.apply(run, activate_, std::move(h));
    return tape.apply(run, *out_, std::move(h));
  }

 private:
  std::unique_ptr<Op> in_, out_;
  ops::Activate activate_;
};

// A gated MLP. If `gate` is set, the hidden values are multiplied by the sigmoid of another
// product.
class GatedMlp final : public FeedForward {
 public:
  GatedMlp(std::unique_ptr<Op> in, std::unique_ptr<Op> out, GateFunction f, ParamId gate = {})
      : in_(std::move(in)), out_(std::move(out)), gated_(f) {
    if (gate != ParamId{}) gate_.emplace(gate);
  }
  Value forward(Tape& tape, const Run& run, Value h) const override {
    std::vector<Value> x;
    if (gate_) {
      x.push_back(tape.apply(run, *in_, h));
      x.push_back(tape.apply(run, *gate_, std::move(h)));
    } else {
      x.push_back(tape.apply(run, *in_, std::move(h)));
    }
    auto y = tape.apply(run, gated_, std::move(x));
    return tape.apply(run, *out_, std::move(y[0]));
  }

 private:
  std::unique_ptr<Op> in_, out_;
  ops::Swiglu gated_;
  std::optional<ops::SigmoidGate> gate_;
};

// Returns the adapters of one weight of each expert. All experts have the same products.
ops::ExpertLowRank adapter_of(const ModelSpec& s, std::span<const ParamId> weights) {
  ops::ExpertLowRank all;
  for (const auto weight : weights) {
    const auto* const one = s.adapter_of(weight);
    if (!one) return {};
    all.a.push_back(one->a);
    all.b.push_back(one->b);
    if (all.a.size() > 1) continue;
    all.rank = one->rank;
    all.scale = one->scale;
    for (const auto& p : one->products) all.products.push_back({p.channel, p.channels, p.row});
  }
  return all;
}

class Mixture final : public FeedForward {
 public:
  Mixture(const ModelSpec& s, const BlockParams& p, std::int64_t layer)
      : Mixture(s, p, layer,
                {.in = p.expert_in,
                 .out = p.expert_out,
                 .in_bias = p.expert_in_bias,
                 .out_bias = p.expert_out_bias,
                 .in_adapter = adapter_of(s, p.expert_in),
                 .out_adapter = adapter_of(s, p.expert_out),
                 .width = s.config.expert_width,
                 .gate = gate_of(s.config)}) {}
  Value forward(Tape& tape, const Run& run, Value h) const override {
    std::vector<Value> in = {h};
    for (auto& routed : tape.apply(run, router_, in)) in.push_back(std::move(routed));
    if (shared_) in.push_back(shared_->forward(tape, run, std::move(h)));
    h = {};
    auto y = run.expert_group ? tape.apply(run, over_ranks_, std::move(in))
                              : tape.apply(run, experts_, std::move(in));
    return std::move(y[0]);
  }

 private:
  Mixture(const ModelSpec& s, const BlockParams& p, std::int64_t layer,
          const ops::ExpertMlp::Params& experts)
      : router_(p.router, p.router_bias, p.logit_bias,
                {s.config.experts, s.config.experts_per_token, s.config.router, s.config.norm_topk},
                layer),
        experts_(experts),
        over_ranks_(experts) {
    if (s.config.shared_expert_width > 0)
      shared_.emplace(make_product(s, p.shared_in), make_product(s, p.shared_out),
                      gate_of(s.config), p.shared_gate);
  }

  ops::Router router_;
  ops::Experts experts_;
  ops::ExpertsOverRanks over_ranks_;
  std::optional<GatedMlp> shared_;
};

}  // namespace

std::unique_ptr<FeedForward> make_feed_forward(const ModelSpec& s, std::int64_t layer) {
  const auto& p = s.blocks[static_cast<std::size_t>(layer)];
  if (has_experts(s.config, layer)) return std::make_unique<Mixture>(s, p, layer);
  if (is_gated(s.config.activation))
    return std::make_unique<GatedMlp>(make_product(s, p.ffn_in, p.ffn_in_bias),
                                      make_product(s, p.ffn_out, p.ffn_out_bias),
                                      gate_of(s.config));
  if (s.adapter_of(p.ffn_in) || s.adapter_of(p.ffn_out))
    return std::make_unique<AdaptedPlainMlp>(s, p);
  return std::make_unique<PlainMlp>(s, p);
}

}  // namespace trireme
