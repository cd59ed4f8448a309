// What a key's documentation says of its values is what decks accept: for each key the ends of its
// range and each of its choices, beside whatever else a deck then needs, and nothing beyond.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lib/deck/table.hpp"
#include "tests/deck/sample.hpp"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Words mixture{"model.layers=1", "model.experts=2", "model.experts_per_token=1",
                    "model.activation=swiglu"};
const Words many_experts = mixture + Words{"model.experts=65536"};
const Words mixture_of_10000 =
    mixture + Words{"model.layers=10000", "model.width=16", "model.heads=1", "model.ffn_width=1"};
const Words layers_10000{"model.layers=10000"};
const Words rotary{"model.positions=rotary"};
const Words window = rotary + Words{"model.window=5"};
const Words documents{"data.packing=documents", "data.attention=document"};
const Words dpo = documents + Words{"train.objective=dpo", "adapter.rank=1"};
const Words simpo = documents + Words{"train.objective=simpo"};
const Words orpo = documents + Words{"train.objective=orpo"};
const Words kto = documents + Words{"train.objective=kto", "adapter.rank=1"};
const Words distill{"train.objective=distill", "distill.teacher=x"};
const Words sigmoid = mixture + Words{"model.router=sigmoid", "train.balance=bias"};
const Words sample = mixture + Words{"train.balance=sample"};
const Words many_ranks{"parallel.data=1048576", "train.batch=1048576"};
const Words fp8{"precision.compute=bf16", "precision.products=fp8"};
const Words muon{"optimizer.name=muon"};
const Words shampoo{"optimizer.name=shampoo"};
const Words f64{"precision.compute=f64", "run.backend=ref"};

// By key, or by key and value: what a deck with it needs.
const std::map<std::string, Words> needs{
    {"model.width=1", {"model.heads=1"}},
    {"model.width=16777216", {"model.heads=1"}},
    {"model.heads=16777216", {"model.width=16777216"}},
    {"model.kv_heads=16777216", {"model.width=16777216", "model.heads=16777216"}},
    {"model.head_dim=16777216", {"model.heads=1"}},
    {"model.max_context=1", {"model.context=1"}},
    {"model.qk_norm_over=width", {"model.qk_norm=true"}},
    {"model.window_layers=[0]", window},
    {"model.window_layers=[9999]", window + layers_10000},
    {"model.experts=65536", many_experts},
    {"model.experts_per_token=65536", many_experts},
    {"model.expert_width", mixture},
    {"model.shared_expert_width", mixture},
    {"model.expert_bias", mixture},
    {"model.router", mixture},
    {"model.dense_layers=[0]", mixture + Words{"model.layers=2"}},
    {"model.dense_layers=[9999]", mixture_of_10000},
    {"model.nope_layers=[0]", rotary},
    {"model.nope_layers=[9999]", rotary + layers_10000},
    {"model.rotary_dim", rotary},
    {"model.rotary_dim=16777216", {"model.head_dim=16777216", "model.heads=1"}},
    {"model.window_rope_theta", window},
    {"model.rope_scaling", rotary},
    {"model.rope_factor=1e6", rotary + Words{"model.rope_scaling=linear"}},
    {"model.offload=inputs", {"model.recompute=block"}},
    {"adapter.rank=65536", {"model.width=65536", "model.heads=1"}},
    {"adapter.base", {"adapter.rank=1"}},
    {"adapter.alpha", {"adapter.rank=1"}},
    {"adapter.dropout", {"adapter.rank=1"}},
    {"adapter.method", {"adapter.rank=1"}},
    {"adapter_rank.rank", {"adapter.rank=1"}},
    {"adapter_rank.alpha", {"adapter.rank=1"}},
    {"adapter_rank.rank=65536", {"model.width=65536", "model.heads=1"}},
    {"adapter.b_lr_ratio", {"adapter.rank=1"}},
    {"data.long_documents", documents},
    {"data.packing=documents", documents},
    {"precision.products=fp8", {"precision.compute=bf16"}},
    {"precision.fp8_except", fp8},
    {"precision.fp8_skip_first", fp8},
    {"precision.fp8_skip_last", fp8},
    {"precision.fp8_skip_first=9999", layers_10000},
    {"precision.fp8_skip_last=9999", layers_10000},
    {"precision.fp8_head", fp8},
    {"train.microbatch=16777216", {"train.batch=16777216"}},
    {"train.objective=dpo", dpo},
    {"train.objective=simpo", simpo},
    {"train.objective=orpo", orpo},
    {"train.objective=kto", kto},
    {"train.objective=distill", distill},
    {"train.dpo_beta", dpo},
    {"train.simpo_beta", simpo},
    {"train.simpo_gamma", simpo},
    {"train.orpo_lambda", orpo},
    {"train.kto_beta", kto},
    {"train.kto_desirable_weight", kto},
    {"train.kto_undesirable_weight", kto},
    {"train.balance=bias", sigmoid},
    {"train.balance=sample", sample},
    {"train.balance_rate", sigmoid},
    {"train.balance_weight", sample},
    {"train.router_z", mixture},
    {"evaluate.ema", {"train.ema=0.5"}},
    {"evaluate.patience", {"data.validation=0.5"}},
    {"evaluate.best_by=accuracy", dpo},
    {"evaluate.best_by=margin", dpo},
    {"distill.temperature", distill},
    {"distill.weight", distill},
    {"optimizer.momentum", {"optimizer.name=sgd"}},
    {"optimizer.matrix_momentum", muon},
    {"optimizer.matrix_nesterov", muon},
    {"optimizer.matrix_scale", muon},
    {"optimizer.matrix_heads", muon},
    {"optimizer.muon_polynomials", muon},
    {"optimizer.shampoo_beta", shampoo},
    {"optimizer.shampoo_eps", shampoo},
    {"optimizer.shampoo_every", shampoo},
    {"optimizer.adamw_lr", muon},
    {"optimizer.adamw_weight_decay", muon},
    {"schedule.min_lr=1000", {"optimizer.lr=1000"}},
    {"schedule.decay_end_steps", {"schedule.shape=wsd"}},
    {"schedule.decay_end_tokens", {"schedule.shape=wsd"}},
    {"precision.compute=f64", f64},
    {"precision.reduce=f64", f64},
    {"parallel.pipe=10000", layers_10000},
    {"parallel.data=1048576", many_ranks},
    {"parallel.expert=65536", many_experts + many_ranks},
    {"parallel.expert_tokens", mixture + Words{"parallel.expert=2", "parallel.data=2"}},
    {"parallel.seq=65536", {"model.context=65536"}},
    {"parallel.stage_layers=[1]", {"model.layers=1"}},
    {"parallel.stage_layers=[10000]", layers_10000},
    {"parallel.schedule=interleaved", {"parallel.pipe=2", "parallel.chunks=2"}},
    {"parallel.schedule=zbv", {"parallel.pipe=2", "parallel.chunks=2"}},
    {"parallel.schedule=zero-bubble", {"parallel.pipe=2"}},
    {"parallel.chunks=64",
     {"parallel.pipe=2", "parallel.schedule=interleaved", "model.layers=128"}},
    {"zero.shard=1048576", many_ranks + Words{"zero.stage=3"}},
    {"zero.gather=step", {"zero.stage=3"}},
    {"zero.reduce=step", {"zero.stage=3"}},
    {"zero.gather_type=fp8", fp8 + Words{"zero.stage=3"}},
    {"run.exact_chunk", {"run.exactness=invariant"}},
};

// The other lines of a repeated section with this key.
const std::map<std::string, std::string> lines_beside = {
    {"adapter_rank.rank", "pattern = '*'\n"},
    {"adapter_rank.alpha", "pattern = '*'\nrank = 1\n"},
    {"freeze.from_step", "pattern = '*'\n"},
    {"freeze.to_step", "pattern = '*'\n"},
    {"freeze.moments", "pattern = '*'\n"},
    {"phase.from_step", "path = 'x'\n"},
    {"phase.from_tokens", "path = 'x'\n"},
    {"phase.weights", "from_step = 1\n"},
    {"validation.weight", "name = 'a'\npath = 'y'\n"},
};

// Decks with this value of the key, in TOML where overrides cannot give it.
std::string refusal_of(const Key& key, const std::string& value) {
  Words words = key.rounded_to_f32 ? f64 : Words{};  // whose numbers f32 would round to an end
  const auto given = key.path() + "=" + value;
  for (const auto& name : {key.path(), given})
    if (const auto found = needs.find(name); found != needs.end()) words = words + found->second;
  const auto text = std::string(least_deck);
  if (find_section(key.section)->repeated) {
    const auto beside = lines_beside.find(key.path());
    return refusal(text + "[[" + key.section + "]]\n" +
                       (beside == lines_beside.end() ? "" : beside->second) + key.name + " = " +
                       value + "\n",
                   words);
  }
  return refusal(text, words + Words{given});
}

std::string as_element(const Key& key, const std::string& value) {
  if (key.kind < ValueKind::integers || key.kind == ValueKind::fraction_or_paths) return value;
  std::string all = value;
  for (std::size_t i = 1; i < std::max<std::size_t>(key.count, key.name == "trace_steps" ? 2 : 1);
       ++i)
    all += "," + value;
  return "[" + all + "]";
}

bool is_whole(const Key& key) {
  return key.kind == ValueKind::integer || key.kind == ValueKind::integers;
}

std::string number(const Key& key, double x) {
  return is_whole(key) ? std::to_string(static_cast<std::int64_t>(x)) : number_text(x);
}

double next_to(const Key& key, double x, double direction) {
  return is_whole(key) ? x + direction : std::nextafter(x, x + direction);
}

TEST(Ranges, EndsAreAcceptedAndNothingBeyond) {
  for (const auto& section : deck_sections())
    for (const auto& key : section.keys) {
      if (!key.range) continue;
      const auto& r = *key.range;
      const auto accepts = [&](double x) {
        const auto value = as_element(key, number(key, x));
        EXPECT_EQ(refusal_of(key, value), "") << key.path() << "=" << value;
      };
      const auto refuses = [&](double x) {
        const auto value = as_element(key, number(key, x));
        EXPECT_THAT(refusal_of(key, value), testing::HasSubstr("out of range"))
            << key.path() << "=" << value;
      };
      accepts(r.above_min ? next_to(key, r.min, 1) : r.min);
      const double below = r.above_min ? r.min : next_to(key, r.min, -1);
      if (below != 0 || key.automatic.empty()) refuses(below);
      if (r.max >= 0x1p53) continue;  // none is documented
      accepts(r.below_max ? next_to(key, r.max, -1) : r.max);
      refuses(r.below_max ? r.max : next_to(key, r.max, 1));
    }
}

// As the reference says of all keys.
TEST(Ranges, LeaveZeroToAuto) {
  int tried = 0;
  for (const auto& section : deck_sections())
    for (const auto& key : section.keys)
      if (!section.repeated && key.range && !key.automatic.empty() && key.range->min <= 1 &&
          key.kind < ValueKind::integers && (key.range->above_min || key.range->min > 0)) {
        ASSERT_EQ(refusal_of_overrides({key.path() + "=0"}), "");
        const auto value = [&](const char* given) {
          const auto deck = overridden({key.path() + given});
          return to_toml(key.access.get(deck, 0));
        };
        EXPECT_EQ(value("=0"), value("=auto")) << key.path();
        ++tried;
      }
  EXPECT_GT(tried, 10);
}

TEST(Ranges, ChoicesAreAccepted) {
  for (const auto& section : deck_sections())
    for (const auto& key : section.keys) {
      for (const auto& choice : key.choices)
        EXPECT_EQ(refusal_of(key, section.repeated ? to_toml(choice) : choice), "")
            << key.path() << "=" << choice;
      if (!section.repeated && !key.automatic.empty()) {
        EXPECT_EQ(refusal_of_overrides({key.path() + "=auto"}), "") << key.path();
      }
      if (!key.word.empty()) {
        EXPECT_EQ(refusal_of_overrides({"zero.stage=1", key.path() + "=" + key.word}), "")
            << key.path();
      }
    }
}

}  // namespace
}  // namespace trireme
