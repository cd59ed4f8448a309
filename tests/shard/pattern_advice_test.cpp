#include "lib/shard/pattern_advice.hpp"

#include <gmock/gmock.h>

#include "tests/support/tiny.hpp"

namespace trireme {

static std::string advice_of_all(const ModelSpec& spec, const char* pattern) {
  return advice_for_pattern(spec, pattern, [](const ParamSpec&) { return true; });
}
static std::string advice_of_trained(const ModelSpec& spec, const char* pattern) {
  return advice_for_pattern(
      spec, pattern, [](const ParamSpec& p) { return p.learns_from == LearnsFrom::gradients; });
}

TEST(PatternAdvice, CompletesTheNameOfAModule) {
  const auto spec = make_spec(test::tiny_llama());
  EXPECT_EQ(advice_of_all(spec, "embedding"), "did you mean \"embedding.*\"?");
  EXPECT_EQ(advice_of_all(spec, "head"), "did you mean \"head.*\"?");
  EXPECT_EQ(advice_of_all(spec, "blocks.0"), "did you mean \"blocks.0.*\"?");
  EXPECT_EQ(advice_of_all(spec, "*.qkv"), "did you mean \"*.qkv.*\"?");
  EXPECT_EQ(advice_of_all(spec, "blocks.?.ffn_in"), "did you mean \"blocks.?.ffn_in.*\"?");
}

TEST(PatternAdvice, SaysThatATiedModelHasNoHead) {
  const auto tied = make_spec(test::tiny_gpt2());
  const std::string reason = "the model has no head of its own, because model.tied = true";
  for (const auto* pattern : {"head", "head.*", "head.weight"})
    EXPECT_EQ(advice_of_all(tied, pattern),
              reason + ": name \"embedding.*\", which is also the head");
  EXPECT_EQ(advice_of_trained(make_spec(test::tiny_gpt2(), {.rank = 2}), "head.*"), reason);
  EXPECT_EQ(advice_of_trained(make_spec(test::tiny_gpt2(), {.rank = 2}), "*.weight"),
            "names look like \"blocks.0.qkv.lora_a\"");
}

// Of a model with adapters, only these are trained.
TEST(PatternAdvice, ShowsANameThatCanBeSelected) {
  EXPECT_EQ(advice_of_all(make_spec(test::tiny_gpt2()), "block.*"),
            "names look like \"blocks.0.qkv.weight\"");
  const auto adapted = make_spec(test::tiny_llama(), {.rank = 2});
  EXPECT_EQ(advice_of_trained(adapted, "head.weight"), "names look like \"blocks.0.qkv.lora_a\"");
  EXPECT_EQ(advice_of_trained(adapted, "*.qkv"), "did you mean \"*.qkv.*\"?");
  EXPECT_EQ(advice_for_pattern(make_spec(test::tiny_gpt2()), "x",
                               [](const ParamSpec& p) { return p.name == "final_norm.bias"; }),
            "names look like \"final_norm.bias\"");
}

}  // namespace trireme
