// Rules about models.
#include "tests/deck/problems.hpp"

namespace trireme {

TEST(Check, Heads) {
  Deck d = sound();
  d.model.heads = 10;
  d.model.kv_heads = 10;
  d.model.head_dim = 0;
  expect_problem(d, "model.heads", "heads that do: 1, 2, 3, 4, 6, 8, 12, 16");

  d = sound();
  d.model.width = 36;
  d.model.head_dim = 3;
  d.model.positions = Positions::rotary;
  expect_problem(d, "model.head_dim", "each head has 3; give an even model.head_dim");
  d.model.heads = d.model.kv_heads = 7;
  d.model.head_dim = 0;
  expect_problem(d, "model.heads", "heads that do: 1, 2, 3, 6, 9, 18");  // all of even head dim

  d = sound();
  d.model.kv_heads = 5;
  expect_problem(d, "model.kv_heads", "that do: 1, 2, 3, 4, 6, 12");

  d = sound();
  d.model.heads = d.model.kv_heads = 1 << 14;
  d.model.head_dim = 1 << 11;
  expect_problem(d, "model.head_dim", "16384 heads with model.head_dim = 2048 have more than");
}

TEST(Check, PositionsOfTheModel) {
  Deck d = sound();
  d.model.max_context = d.data.context - 1;
  expect_problem(d, "model.max_context",
                 "model.max_context = 1023 is less than model.context = 1024: raise the first");
  d.model.max_context = d.data.context + 1;
  EXPECT_TRUE(check_deck(d).empty());
}

TEST(Check, RotaryScaling) {
  Deck d = sound();
  d.model.rope_scaling = RopeScaling::linear;
  expect_problem(d, "model.rope_scaling", "needs model.positions = \"rotary\"");
  d.model.positions = Positions::rotary;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rope_scaling = RopeScaling::none;
  d.model.rope_factor = 8;
  expect_problem(d, "model.rope_factor", "model.rope_factor = 8 needs model.rope_scaling");
  d.model.rope_scaling = RopeScaling::llama3;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rope_low_freq_factor = 4;
  expect_problem(d, "model.rope_high_freq_factor",
                 "model.rope_high_freq_factor = 4 is not above model.rope_low_freq_factor = 4");
  d.model.rope_scaling = RopeScaling::yarn;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rope_beta_slow = 32;
  expect_problem(d, "model.rope_beta_fast",
                 "model.rope_beta_fast = 32 is not above model.rope_beta_slow = 32");
  d.model.rope_scaling = RopeScaling::linear;
  EXPECT_TRUE(check_deck(d).empty());
  EXPECT_NE(refusal_of_addition("[model]\nrope_factor = 0.5\n").find("d.toml:6:15: "),
            std::string::npos);
}

TEST(Check, KeysOfExpertsNeedThem) {
  const auto alone = [](const char* key, auto give) {
    Deck d = sound();
    give(d);
    expect_problem(d, key, std::string(key) + " needs model.experts: set that");
  };
  alone("model.experts_per_token", [](Deck& d) { d.model.experts_per_token = 2; });
  alone("model.expert_width", [](Deck& d) { d.model.expert_width = 8; });
  alone("model.shared_expert_width", [](Deck& d) { d.model.shared_expert_width = 8; });
  alone("model.expert_bias", [](Deck& d) { d.model.expert_bias = true; });
  alone("model.dense_layers", [](Deck& d) { d.model.dense_layers = {0}; });
  alone("model.router", [](Deck& d) { d.model.router = RouterScores::sigmoid; });
  alone("model.norm_topk", [](Deck& d) { d.model.norm_topk = false; });
  alone("train.balance", [](Deck& d) { d.train.balance = Balance::sample; });
  alone("train.router_z", [](Deck& d) { d.train.router_z = 0.1; });
  alone("parallel.expert_tokens", [](Deck& d) { d.parallel.expert_tokens = 16; });
  alone("parallel.expert", [](Deck& d) { d.parallel.expert = 2; });
  Deck d = sound();
  d.model.shared_expert_gate = true;
  expect_problem(d, "model.shared_expert_gate", "set model.shared_expert_width");
}

TEST(Check, Windows) {
  Deck d = sound();
  d.model.window_layers = {1};
  expect_problem(d, "model.window_layers", "model.window_layers needs model.window: set that");
  d.model.window = 64;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.window_layers = {12, 1};
  expect_problem(d, "model.window_layers",
                 "names block 12, but with model.layers = 12 the last block is 11");
  d.model.window_layers = {3, 1, 3};
  expect_problem(d, "model.window_layers", "names a block twice");
  d.model.window_layers = {};
  d.model.window = 100000;  // more than a context has
  EXPECT_TRUE(check_deck(d).empty());
}

TEST(Check, RotaryPositionsInPart) {
  Deck d = sound();
  d.model.nope_layers = {1};
  expect_problem(d, "model.nope_layers", "model.nope_layers needs model.positions = \"rotary\"");
  d.model.positions = Positions::rotary;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.nope_layers = {1, 12};
  expect_problem(d, "model.nope_layers",
                 "names block 12, but with model.layers = 12 the last block is 11");
  d.model.nope_layers = {2, 2};
  expect_problem(d, "model.nope_layers", "names a block twice");

  d = sound();
  d.model.rotary_dim = 32;
  expect_problem(d, "model.rotary_dim", "model.rotary_dim needs model.positions = \"rotary\"");
  d.model.positions = Positions::rotary;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rotary_dim = 33;
  expect_problem(d, "model.rotary_dim", "is odd, but channels rotate in pairs");
  d.model.rotary_dim = 64;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.rotary_dim = 66;
  expect_problem(d, "model.rotary_dim", "= 66 is more than the 64 channels of a head");
}

TEST(Check, EmbeddingsHaveOneFactor) {
  Deck d = sound();
  d.model.embedding_scale = 12;
  EXPECT_TRUE(check_deck(d).empty());
  d.model.scale_embedding = true;
  expect_problem(d, "model.embedding_scale", "both multiply embeddings: remove one of them");
}

TEST(Check, Experts) {
  Deck sparse = sound();
  sparse.model.activation = ActivationKind::swiglu;
  sparse.model.experts = 5;
  sparse.model.experts_per_token = 2;
  sparse.model.expert_width = 8;
  ASSERT_TRUE(check_deck(sparse).empty());

  const auto refused = [&](const char* key, const std::string& words, auto change) {
    Deck d = sparse;
    change(d);
    expect_problem(d, key, words);
  };
  for (const int k : {0, 6})
    refused("model.experts_per_token", "is not between 1 and model.experts = 5: give the number",
            [k](Deck& d) { d.model.experts_per_token = k; });
  refused("model.activation", "experts need a gated activation",
          [](Deck& d) { d.model.activation = ActivationKind::gelu; });
  refused("model.expert_bias", "the router of \"sigmoid\" already has a bias", [](Deck& d) {
    d.model.expert_bias = true;
    d.model.router = RouterScores::sigmoid;
  });
  refused("model.dense_layers", "names block 12, but with model.layers = 12 the last block is 11",
          [](Deck& d) {
            d.model.dense_layers = {11, 12};
          });
  refused("model.dense_layers", "names a block twice", [](Deck& d) {
    d.model.dense_layers = {3, 1, 3};
  });
  refused("model.dense_layers", "model.dense_layers names all blocks, so no block has experts",
          [](Deck& d) {
            for (int layer = 0; layer < 12; ++layer) d.model.dense_layers.push_back(layer);
          });
  refused("parallel.expert_tokens", "parallel.expert_tokens needs expert parallelism",
          [](Deck& d) { d.parallel.expert_tokens = 16; });
  refused("train.balance", "needs model.router = \"sigmoid\"",
          [](Deck& d) { d.train.balance = Balance::bias; });
  refused("train.balance_weight", "needs train.balance = \"sample\"",
          [](Deck& d) { d.train.balance_weight = 0.5; });
  refused("train.balance_rate", "needs train.balance = \"bias\"",
          [](Deck& d) { d.train.balance_rate = 0.5; });
  refused("parallel.expert", "parallel.expert = 6 is more than model.experts = 5",
          [](Deck& d) { d.parallel.expert = 6; });

  Deck biased = sparse;
  biased.model.expert_bias = true;
  biased.model.activation = ActivationKind::swiglu_clamped;
  EXPECT_TRUE(check_deck(biased).empty());

  sparse.model.dense_layers = {11, 0};
  sparse.train.balance = Balance::sample;
  sparse.train.balance_weight = 0.5;
  EXPECT_TRUE(check_deck(sparse).empty());
  sparse.model.router = RouterScores::sigmoid;
  EXPECT_TRUE(check_deck(sparse).empty());
  sparse.train.balance_weight = TrainConfig{}.balance_weight;
  sparse.train.balance = Balance::bias;
  sparse.train.balance_rate = 0.5;
  EXPECT_TRUE(check_deck(sparse).empty());
}

}  // namespace trireme
