// Windows of config.json to [model] and back; what cannot be represented is refused by name.
#include "lib/interchange/families/windows.hpp"

#include "lib/interchange/family.hpp"
#include "tests/interchange/config_files.hpp"

namespace trireme {

using namespace test;

TEST(Windows, AreThoseOfTheFamily) {
  struct Window {
    std::int64_t tokens;
    std::vector<std::int64_t> layers;
    bool operator==(const Window&) const = default;
  };
  const Window none{0, {}};
  const auto window = [](const Json& json, const char* changes) {
    const auto c = with(json, changes);
    EXPECT_EQ(c.max_context, 64);
    return Window{c.window, c.window_layers};
  };
  const auto llama = [&](const char* changes) {
    auto json = llama_config();
    json["num_hidden_layers"] = 4;
    return window(json, changes);
  };
  const Window all{32, {}};
  EXPECT_EQ(llama(R"({"model_type": "mistral", "sliding_window": 32})"), all);
  EXPECT_EQ(llama(R"({"model_type": "mistral"})"), (Window{4096, {}}));
  EXPECT_EQ(llama(R"({"model_type": "mistral", "sliding_window": null})"), none);
  // Mistral's class reads no types of layers.
  EXPECT_EQ(llama(R"({"model_type": "mistral", "sliding_window": 32,
                      "layer_types": ["full_attention", "full_attention"]})"),
            all);
  EXPECT_EQ(llama(R"({"layer_types": ["full_attention", "full_attention"]})"), none);
  for (const char* type : {"qwen2", "qwen3"}) {
    auto json = llama_config();
    json["model_type"] = type;
    json["num_hidden_layers"] = 4;
    json["sliding_window"] = 32;
    const auto qwen = [&](const char* changes) { return window(json, changes); };
    EXPECT_EQ(qwen("{}"), none);
    EXPECT_EQ(qwen(R"({"use_sliding_window": false, "max_window_layers": 0})"), none);
    EXPECT_EQ(qwen(R"({"use_sliding_window": true})"), none);  // from layer 28 on
    EXPECT_EQ(qwen(R"({"use_sliding_window": true, "max_window_layers": 2})"),
              (Window{32, {2, 3}}));
    EXPECT_EQ(qwen(R"({"use_sliding_window": true, "max_window_layers": 0})"), all);
    EXPECT_EQ(qwen(R"({"use_sliding_window": true, "max_window_layers": 0,
                       "sliding_window": null})"),
              none);
    EXPECT_EQ(qwen(R"({"use_sliding_window": true, "max_window_layers": 0, "layer_types":
                       ["sliding_attention", "full_attention", "sliding_attention",
                        "full_attention"]})"),
              (Window{32, {0, 2}}));
  }
  auto mixtral = mixture_config(R"({"model_type": "mixtral"})");
  EXPECT_EQ(window(mixtral, "{}"), none);
  EXPECT_EQ(window(mixtral, R"({"sliding_window": 32})"), all);
  const auto qwen3 = qwen3_moe_config();
  EXPECT_EQ(window(qwen3, R"({"sliding_window": 32, "use_sliding_window": false})"), none);
  EXPECT_EQ(window(qwen3, R"({"sliding_window": 32, "use_sliding_window": true,
                              "max_window_layers": 2})"),
            all);
}

TEST(Windows, OneThatIsNotKnownIsRefusedWhereItMatters) {
  // Versions 4 and 5 give the window to other layers.
  const auto json = qwen2_moe_config();
  EXPECT_EQ(with(json, R"({"sliding_window": 8, "use_sliding_window": false})").max_context, 64);
  EXPECT_EQ(with(json, R"({"sliding_window": 64, "use_sliding_window": true})").window, 0);
  const char* used = R"({"sliding_window": 8, "use_sliding_window": true})";
  const auto says = message_of<Error>([&] { with(json, used); });
  EXPECT_NE(says.find("'sliding_window' = 8"), std::string::npos) << says;
  EXPECT_NE(says.find("--context 8"), std::string::npos) << says;
  auto olmoe = mixture_config(R"({"model_type": "olmoe"})");
  EXPECT_EQ(with(olmoe, R"({"sliding_window": null})").max_context, 64);
  EXPECT_NE(message_of<Error>([&] {
              with(olmoe, R"({"sliding_window": 8})");
            }).find("'sliding_window' = 8"),
            std::string::npos);
  // Where what a window does is not known, it is the same model within that alone.
  auto wider = json;
  wider.update(Json::parse(R"({"sliding_window": 32, "use_sliding_window": true})"));
  EXPECT_EQ(model_of_config(wider, "config.json", 16).max_context, 32);
}

TEST(Windows, WhatCannotBeReadIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"sliding_window": 8})", "'sliding_window' = 8"},
      {R"({"layer_types": ["full_attention", "linear_attention"]})", "linear_attention"},
      {R"({"layer_types": ["full_attention", "sliding_attention"]})",
       "'layer_types' contains \"sliding_attention\", but models of this type have no window"},
      {R"({"model_type": "qwen3", "sliding_window": 8,
           "layer_types": ["full_attention", "sliding_attention"]})",
       "\"sliding_attention\", but 'use_sliding_window' is not true"},
      {R"({"model_type": "qwen3", "use_sliding_window": true, "layer_types": ["sliding_attention"]})",
       "'layer_types' lists 1 layer, but 'num_hidden_layers' is 2"},
      {R"({"model_type": "qwen3", "use_sliding_window": true, "sliding_window": -3,
           "max_window_layers": 0})",
       "'sliding_window'"},
  };
  for (const auto& [change, says] : cases) {
    const auto text = message_of<Error>([&] { with(llama_config(), change); });
    EXPECT_NE(text.find(says), std::string::npos) << change << ": " << text;
    EXPECT_TRUE(text.starts_with("config.json cannot be imported")) << text;
  }
}

TEST(Windows, WhatNoFamilyHasIsRefusedByItsSetting) {
  const auto refused = [](ModelConfig c, auto change, std::string_view says) {
    change(c);
    const auto text = message_of<Error>([&] { family_of(c); });
    EXPECT_NE(text.find(says), std::string::npos) << says << ": " << text;
  };
  const auto gpt2 = small_gpt2(), llama = small_llama(), mixtral = small_mixtral(),
             olmoe = small_olmoe(), qwen2 = small_qwen2_moe(), qwen3 = small_qwen3_moe();
  refused(
      gpt2, [](auto& c) { c.window = 5; },
      "GPT2LMHeadModel requires model.window = 0 instead of 5");
  const auto some = [](auto& c) {
    c.window = 5;
    c.window_layers = {1};
  };
  auto windows_in_some = llama;
  some(windows_in_some);
  EXPECT_EQ(family_of(windows_in_some).architecture, "SmolLM3ForCausalLM");
  for (const auto& mixture : {mixtral, qwen3})
    refused(mixture, some, "requires model.window_layers = [] instead of [1]");
  for (const auto& mixture : {olmoe, qwen2})
    refused(mixture, some, "requires model.window = 0 instead of 5, model.window_layers = []");
}

}  // namespace trireme
