// A model with low-rank adapters is the model without, whose weights are merged: w + s b a. So its
// loss is that model's, and its gradients follow from that model's dw by the chain rule, here by
// plain sums: da = s b' dw, db = s dw a'.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "kernels/ref/ref.hpp"
#include "tests/support/named_weights.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

using test::Weights;
using test::weights_of;
using test::write_all;

// Rows [begin, begin + count) of a weight, and the adapter's name of that product.
struct Product {
  std::string name, weight;
  std::int64_t begin, count;
};

// By the names in docs/deck.md.
std::vector<Product> products_of_block(const ModelConfig& c, std::int64_t layer, bool experts) {
  const auto block = "blocks." + std::to_string(layer);
  const auto q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  std::vector<Product> all;
  if (c.positions == Positions::rotary)
    all = {{block + ".qkv.q", block + ".qkv", 0, q},
           {block + ".qkv.k", block + ".qkv", q, kv},
           {block + ".qkv.v", block + ".qkv", q + kv, kv}};
  else
    all = {{block + ".qkv", block + ".qkv", 0, q + 2 * kv}};
  all.push_back({block + ".projection", block + ".projection", 0, c.width});
  const auto mlp = [&](const std::string& of, std::int64_t hidden) {
    if (is_gated(c.activation)) {
      all.push_back({of + ".ffn_in.gate", of + ".ffn_in", 0, hidden});
      all.push_back({of + ".ffn_in.up", of + ".ffn_in", hidden, hidden});
    } else {
      all.push_back({of + ".ffn_in", of + ".ffn_in", 0, hidden});
    }
    all.push_back({of + ".ffn_out", of + ".ffn_out", 0, c.width});
  };
  if (!has_experts(c, layer))
    mlp(block, c.ffn_width);
  else if (c.shared_expert_width > 0)
    mlp(block + ".shared_expert", c.shared_expert_width);
  if (experts && has_experts(c, layer))
    for (std::int64_t e = 0; e < c.experts; ++e)
      mlp(block + ".experts." + std::to_string(e), c.expert_width);
  return all;
}

TrainerSetup setup_of(const ModelConfig& c) {
  auto s = test::setup_of(c, test::plain_sgd(), DType::f64);
  s.balance = c.experts > 0 ? Balance::sample : Balance::none;  // bias would move it
  s.balance_weight = 0.1;
  return s;
}

struct Outcome {
  double loss = 0;
  Weights before, gradients;
};

// SGD with rate 1 subtracts the gradient. `begin` of nothing: as initialized.
Outcome outcome_of(const TrainerSetup& setup, Weights begin, const Batch& batch) {
  Ref backend;
  const Workspace scratch(backend);
  Trainer trainer(backend, {}, setup);
  trainer.store().initialize(3, 1);
  if (begin.empty()) {
    begin = weights_of(trainer.store());
    for (auto& [name, values] : begin)  // they begin at zero, which would hide da
      if (name.ends_with(".lora_b") || name.ends_with(".router.bias"))
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = 0.3 * std::sin(static_cast<double>(i + name.size()));
  }
  write_all(trainer.store(), begin);
  Outcome o{.loss = 0, .before = begin, .gradients = {}};
  o.loss = trainer.step(0, 1, {&batch, 1}).loss;
  o.gradients = weights_of(trainer.store());
  for (auto& [name, values] : o.gradients)
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = begin.at(name)[i] - values[i];
  return o;
}

struct Case {
  const char* name;
  TrainerSetup setup;
  bool operator==(const Case& o) const { return std::string_view(name) == o.name; }
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::vector<Case> cases() {
  std::vector<Case> all = {{"gpt2", setup_of(test::tiny_gpt2())},
                           {"llama", setup_of(test::tiny_llama())},
                           {"qwen", setup_of(test::tiny_qwen())},
                           {"mixture", setup_of(test::tiny_mixture())},
                           {"sigmoid", setup_of(test::tiny_sigmoid_mixture())},
                           {"gpt_oss", setup_of(test::tiny_gpt_oss())}};
  for (auto& c : all) c.setup.adapter.rank = 3;
  for (const auto i : {3, 4, 5}) {  // the mixtures again, with adapters of their experts
    static const std::array names{"mixture_experts", "sigmoid_experts", "gpt_oss_experts"};
    auto experts = all[static_cast<std::size_t>(i)];
    experts.name = names[static_cast<std::size_t>(i - 3)];
    experts.setup.adapter.patterns = {"*", "*.experts.*"};
    all.push_back(experts);
  }
  auto some = all[1];
  some.name = "llama_some";
  some.setup.adapter.patterns = {"*.qkv.q", "blocks.1.qkv.v", "*.ffn_in.up"};
  some.setup.adapter.alpha = 5;
  some.setup.adapter.rank_stabilized = true;
  all.push_back(some);
  auto tables = all[1];
  tables.name = "llama_tables";
  tables.setup.adapter.patterns = {"*", "embedding", "head"};
  all.push_back(tables);
  auto recompute = all[1];
  recompute.name = "llama_recompute";
  recompute.setup.recompute = Recompute::block;
  all.push_back(recompute);
  return all;
}

class Adapters : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Train, Adapters, testing::ValuesIn(cases()),
                         [](const auto& i) { return std::string(i.param.name); });

bool names_tables(const TrainerSetup& setup) {
  return setup.adapter.patterns.back() == "head";
}

bool names_experts(const TrainerSetup& setup) {
  return setup.adapter.patterns.back() == "*.experts.*";
}

// As many products as it has are found by a pattern, in all its blocks.
std::vector<Product> adapted(const TrainerSetup& setup, const Weights& weights) {
  std::vector<Product> all;
  for (std::int64_t l = 0; l < setup.model.layers; ++l)
    for (const auto& p : products_of_block(setup.model, l, names_experts(setup))) {
      const bool some = setup.adapter.patterns.size() > 2 && !names_tables(setup);
      if (some && !p.name.ends_with(".qkv.q") && p.name != "blocks.1.qkv.v" &&
          !p.name.ends_with(".ffn_in.up"))
        continue;
      all.push_back(p);
      EXPECT_TRUE(weights.contains(p.weight + ".lora_a")) << p.name;
    }
  EXPECT_EQ(weights.contains("embedding.lora_a"), names_tables(setup));
  EXPECT_EQ(weights.contains("head.lora_a"), names_tables(setup));
  if (names_tables(setup))
    for (const auto* table : {"embedding", "head"})
      all.push_back({table, table, 0, setup.model.vocab});
  return all;
}

// The hidden channels of the MLP to which the weight belongs.
std::int64_t hidden_of(const ModelConfig& c, const std::string& weight) {
  if (weight.find(".shared_expert.") != weight.npos) return c.shared_expert_width;
  return weight.find(".experts.") != weight.npos ? c.expert_width : c.ffn_width;
}

TEST_P(Adapters, AreThoseOfMergedWeights) {
  const auto& setup = GetParam().setup;
  const auto& c = setup.model;
  const auto batch = test::random_batch(c, 3);
  const auto got = outcome_of(setup, {}, batch);
  const auto R = static_cast<std::size_t>(setup.adapter.rank);
  const double r = static_cast<double>(R);
  const double s = setup.adapter.rank_stabilized ? 5 / std::sqrt(r) : 2;  // alpha: twice the rank

  // Merged by plain sums; each product's a has its own rows, in order.
  auto merged = got.before;
  std::map<std::string, std::size_t> a_row, b_row;
  struct Place {
    Product product;
    std::size_t a_row, b_row, inputs;
  };
  std::vector<Place> places;
  for (const auto& p : adapted(setup, got.before)) {
    auto& w = merged.at(p.weight + ".weight");
    const auto &a = got.before.at(p.weight + ".lora_a"), &b = got.before.at(p.weight + ".lora_b");
    const Place at{
        p, a_row[p.weight], b_row[p.weight],
        w.size() / static_cast<std::size_t>(
                       p.weight.ends_with(".qkv") ? (c.heads + 2 * c.kv_heads) * c.head_dim
                       : p.weight.ends_with(".ffn_in")
                           ? (is_gated(c.activation) ? 2 : 1) * hidden_of(c, p.weight)
                       : p.weight.starts_with("blocks.") ? c.width
                                                         : c.vocab)};
    a_row[p.weight] += R;
    b_row[p.weight] += static_cast<std::size_t>(p.count);
    places.push_back(at);
    for (std::size_t n = 0; n < static_cast<std::size_t>(p.count); ++n)
      for (std::size_t i = 0; i < at.inputs; ++i)
        for (std::size_t k = 0; k < R; ++k)
          w[(static_cast<std::size_t>(p.begin) + n) * at.inputs + i] +=
              s * b[(at.b_row + n) * R + k] * a[(at.a_row + k) * at.inputs + i];
  }
  std::erase_if(merged, [](const auto& w) { return w.first.find(".lora_") != std::string::npos; });
  const auto want = outcome_of(test::without_adapters(setup), merged, batch);

  EXPECT_NEAR(got.loss, want.loss, 1e-13 * want.loss);
  for (const auto& [name, dw] : got.gradients) {
    if (name.find(".lora_") != std::string::npos) continue;
    EXPECT_TRUE(std::ranges::all_of(dw, [](double d) { return d == 0; })) << name;
  }
  std::size_t trained = 0;  // without the products of experts that no token chose
  for (const auto& [p, a_begin, b_begin, inputs] : places) {
    const auto& dw = want.gradients.at(p.weight + ".weight");
    const auto &a = got.before.at(p.weight + ".lora_a"), &b = got.before.at(p.weight + ".lora_b");
    const auto &da = got.gradients.at(p.weight + ".lora_a"),
               &db = got.gradients.at(p.weight + ".lora_b");
    double most = 0;
    for (std::size_t k = 0; k < R; ++k)
      for (std::size_t i = 0; i < inputs; ++i) {
        double sum = 0;
        for (std::size_t n = 0; n < static_cast<std::size_t>(p.count); ++n)
          sum += s * b[(b_begin + n) * R + k] *
                 dw[(static_cast<std::size_t>(p.begin) + n) * inputs + i];
        most = std::max(most, std::fabs(sum));
        EXPECT_NEAR(da[(a_begin + k) * inputs + i], sum, 1e-13) << p.name;
      }
    const bool idle = p.name.find(".experts.") != p.name.npos &&
                      std::ranges::all_of(dw, [](double d) { return d == 0; });
    trained += !idle;
    EXPECT_TRUE(idle || most > 1e-6) << p.name;
    for (std::size_t n = 0; n < static_cast<std::size_t>(p.count); ++n)
      for (std::size_t k = 0; k < R; ++k) {
        double sum = 0;
        for (std::size_t i = 0; i < inputs; ++i)
          sum += s * dw[(static_cast<std::size_t>(p.begin) + n) * inputs + i] *
                 a[(a_begin + k) * inputs + i];
        EXPECT_NEAR(db[(b_begin + n) * R + k], sum, 1e-13) << p.name;
      }
  }
  EXPECT_GT(trained, places.size() / 2);
}

TEST_P(Adapters, AloneAreInCheckpoints) {
  const auto& setup = GetParam().setup;
  for (const auto& p : make_spec(setup.model, setup.adapter).params)
    EXPECT_EQ(is_saved(p), p.name.find(".lora_") != std::string::npos) << p.name;
}

// b is zero at first: nothing is added.
TEST_P(Adapters, BeginAsTheModelThatTheyStandBeside) {
  const auto& setup = GetParam().setup;
  const auto batch = test::random_batch(setup.model, 2);
  const auto loss = [&](const TrainerSetup& of) {
    Ref backend;
    const Workspace scratch(backend);
    Trainer trainer(backend, {}, of);
    trainer.store().initialize(3, 1);
    return trainer.evaluate(batch).sum;
  };
  EXPECT_EQ(loss(setup), loss(test::without_adapters(setup)));
}

// The mask is a function of the step, so differences of the loss see the same one.
TEST(Adapters, DropoutHasTheGradientOfItsMask) {
  auto c = test::tiny_llama();
  c.layers = 1;
  auto setup = setup_of(c);
  setup.adapter.rank = 2;
  setup.adapter.dropout = 0.4;
  setup.adapter.patterns = {"*", "head"};
  const auto batch = test::random_batch(c, 2);
  const auto o = outcome_of(setup, {}, batch);
  for (const std::string name : {"blocks.0.qkv.lora_a", "head.lora_a", "head.lora_b"})
    for (const std::size_t e : {0U, 5U, 30U, 37U}) {
      const auto at = [&](double by) {
        auto moved = o.before;
        moved.at(name).at(e) += by;
        return outcome_of(setup, moved, batch).loss;
      };
      const double h = 1e-5;
      EXPECT_NEAR(o.gradients.at(name).at(e), (at(h) - at(-h)) / (2 * h), 1e-9) << name;
    }
  auto without = setup;
  without.adapter.dropout = 0;
  EXPECT_NE(o.loss, outcome_of(without, o.before, batch).loss);
}

TrainerSetup dora_setup() {
  auto setup = setup_of(test::tiny_qwen());
  setup.adapter.rank = 2;
  setup.adapter.method = AdapterMethod::dora;
  return setup;
}

// A row of w + s b a may be multiplied by any number above 0, because its trained norm replaces its
// norm.
TEST(Adapters, DoraDoesNotDependOnTheNormsOfBaseRows) {
  const auto setup = dora_setup();
  const auto batch = test::random_batch(setup.model, 2);
  const auto first = outcome_of(setup, {}, batch);
  auto scaled = first.before;
  auto& w = scaled.at("blocks.0.projection.weight");
  auto& b = scaled.at("blocks.0.projection.lora_b");
  const auto rows = static_cast<std::size_t>(setup.model.width), width = w.size() / rows;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] *= 1 + 0.5 * static_cast<double>(i / width);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] *= 1 + 0.5 * static_cast<double>(i / 2);
  const auto second = outcome_of(setup, scaled, batch);
  EXPECT_NEAR(first.loss, second.loss, 1e-13 * first.loss);
  const auto &dm = first.gradients.at("blocks.0.projection.lora_norms"),
             &again = second.gradients.at("blocks.0.projection.lora_norms");
  double most = 0;
  for (std::size_t n = 0; n < rows; ++n) {
    EXPECT_NEAR(dm[n], again[n], 1e-13);
    most = std::max(most, std::fabs(dm[n]));
  }
  EXPECT_GT(most, 1e-6);
}

TEST(Adapters, DoraInChunksOfTokensEqualsDora) {
  auto setup = dora_setup();
  const auto batch = test::random_batch(setup.model, 2);
  const auto whole = outcome_of(setup, {}, batch);
  setup.chunk_tokens = 3;
  const auto pieces = outcome_of(setup, whole.before, batch);
  EXPECT_NEAR(whole.loss, pieces.loss, 1e-13 * whole.loss);
  for (const auto& [name, gradient] : whole.gradients)
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(gradient[i], pieces.gradients.at(name)[i], 1e-13) << name;
}

// The alpha of a rule is part of the function, whether the deck gives it or leaves it to auto.
TEST(Adapters, CanonicalSettingsHaveTheAlphasOfRules) {
  const AdapterConfig automatic{.rank = 16, .ranks = {{"*.projection", 32}}};
  auto given = automatic;
  given.alpha = 32;
  EXPECT_NE(canonical(automatic), canonical(given));
  EXPECT_EQ(rank_and_scale_of(automatic, "blocks.0.projection").scale, 2);
  EXPECT_EQ(rank_and_scale_of(given, "blocks.0.projection").scale, 1);
}

TEST(Adapters, OtherParametersTrainOnlyWhereTheyHaveNoAdapter) {
  const auto trained = [](std::vector<std::string> also) {
    std::vector<std::string> names;
    const AdapterConfig adapter{.rank = 2, .patterns = {"*.qkv.*"}, .also_train = std::move(also)};
    for (const auto& p : make_spec(test::tiny_sigmoid_mixture(), adapter).params)
      if (is_saved(p) && !is_of_adapter(p)) names.push_back(p.name);
    return names;
  };
  EXPECT_EQ(trained({"final_norm"}), std::vector<std::string>{"final_norm.weight"});
  EXPECT_EQ(trained({"*.router.weight"}).size(), trained({"blocks.*.router.weight"}).size());
  EXPECT_EQ(trained({"blocks.0.attention_norm", "embedding"}),
            (std::vector<std::string>{"embedding.weight", "blocks.0.attention_norm.weight"}));
  for (const auto& [pattern, says] :
       {std::pair("blocks.0.qkv", "has an adapter"), std::pair("*.router.bias", "load balancing"),
        std::pair("nothing", "matches no parameter")}) {
    try {
      trained({pattern});
      ADD_FAILURE() << pattern;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  }
}

TEST(Adapters, PatternsThatMatchNothingAreNamed) {
  try {
    make_spec(test::tiny_gpt2(), {.rank = 2, .patterns = {"*.qkv", "*.qkv.q"}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("\"*.qkv.q\" matches no matrix product"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace trireme
