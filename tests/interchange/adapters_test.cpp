// Folders of peft's adapters: what of them contradicts itself, or is no number, and that every
// message names the file and the key.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "lib/base/array_names.hpp"
#include "lib/base/json.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/import.hpp"
#include "lib/interchange/safetensors.hpp"
#include "tests/interchange/model_files.hpp"

namespace trireme {

using namespace test;

namespace {

constexpr std::int64_t pair_rank = 2;

struct ModuleShape {
  std::int64_t inputs, outputs;
};
// Of small_llama.
const std::map<std::string, ModuleShape> llama_modules{
    {"self_attn.q_proj", {24, 24}}, {"self_attn.k_proj", {24, 12}}, {"self_attn.v_proj", {24, 12}},
    {"self_attn.o_proj", {24, 24}}, {"mlp.gate_proj", {24, 20}},    {"mlp.up_proj", {24, 20}},
    {"mlp.down_proj", {20, 24}}};

class Adapters : public testing::Test {
 protected:
  Adapters() { base.emplace(save_model(folder.path() / "base", small_llama())); }

  // Of these modules in these layers, all numbers of a and of b alike.
  void write(const std::vector<std::string>& of, std::vector<std::int64_t> in = {0, 1},
             float a = 0.5F, float b = 0.25F) {
    std::vector<SafeTensor> entries;
    std::vector<float> values;
    for (const auto layer : in)
      for (const auto& m : of) {
        const auto [inputs, outputs] = llama_modules.at(m);
        const auto name = "base_model.model.model.layers." + std::to_string(layer) + "." + m;
        entries.push_back(
            {name + ".lora_A.weight", "F32", {pair_rank, inputs}, 0, pair_rank * inputs * 4});
        entries.push_back(
            {name + ".lora_B.weight", "F32", {outputs, pair_rank}, 0, pair_rank * outputs * 4});
        values.insert(values.end(), static_cast<std::size_t>(pair_rank * inputs), a);
        values.insert(values.end(), static_cast<std::size_t>(pair_rank * outputs), b);
      }
    write_file(entries, values);
  }
  // Tensors of zeros.
  void write_entries(const std::vector<SafeTensor>& entries) {
    std::int64_t count = 0;
    for (const auto& t : entries) count += t.count();
    write_file(entries, std::vector<float>(static_cast<std::size_t>(count)));
  }
  void write_file(const std::vector<SafeTensor>& entries, const std::vector<float>& values) {
    std::filesystem::create_directories(folder.path() / "peft");
    std::filesystem::remove(folder.path() / "peft/adapter_model.safetensors");
    SafetensorsWriter file(folder.path() / "peft/adapter_model.safetensors", entries);
    file.append(std::as_bytes(std::span(values)));
    file.finish();
  }
  // The message of a folder with these changes of its adapter_config.json, empty when it imports.
  std::string import_with(const std::string& changes) {
    auto json = Json::parse(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
    json.update(Json::parse(changes));
    folder.write("peft/adapter_config.json", json.dump());
    std::filesystem::remove_all(folder / "out");
    return message_of<Error>([&] { import_adapters(folder / "peft", folder / "out", *base); });
  }
  std::vector<std::string> patterns() {
    return deck_of(CheckpointReader(folder / "out")).adapter.patterns;
  }
  void expect_refused(const std::string& changes, const std::vector<std::string>& says) {
    const auto text = import_with(changes);
    for (const auto& part : says)
      EXPECT_NE(text.find(part), std::string::npos) << changes << ": " << text;
    EXPECT_FALSE(std::filesystem::exists(folder / "out")) << changes;
  }
  ScratchFolder folder;
  std::optional<CheckpointReader> base;
};

std::string targets(const std::string& value) {
  return R"({"target_modules": )" + value + "}";
}

}  // namespace

TEST_F(Adapters, ModulesThatBothFilesNameAreImported) {
  write({"self_attn.q_proj", "self_attn.v_proj"});
  const std::vector<std::string> both{"blocks.0.qkv.q", "blocks.0.qkv.v", "blocks.1.qkv.q",
                                      "blocks.1.qkv.v"};
  for (const char* value :
       {R"(["q_proj", "v_proj"])", R"(["self_attn.q_proj", "v_proj", "no_such"])",
        R"x(".*\\.(q_proj|v_proj)")x",
        R"("^model\\.layers\\.[\\d]+\\.self_attn\\.\\b[qv]_proj$")"}) {
    EXPECT_EQ(import_with(targets(value)), "") << value;
    EXPECT_EQ(patterns(), both) << value;
  }
  EXPECT_EQ(import_with(R"({"target_modules": ["q_proj", "k_proj", "v_proj"],
                            "exclude_modules": ["k_proj"]})"),
            "");
  write({"self_attn.q_proj"}, {1});
  for (const char* more :
       {R"("layers_to_transform": [1])", R"("layers_to_transform": 1, "layers_pattern": "layers")"})
    EXPECT_EQ(import_with(std::string(R"({"target_modules": ["q_proj"], )") + more + "}"), "")
        << more;
  std::vector<std::string> all;
  for (const auto& [m, _] : llama_modules) all.push_back(m);
  write(all);
  EXPECT_EQ(import_with(targets(R"("all-linear")")), "");
}

TEST_F(Adapters, ModulesThatOneFileAloneNamesAreRefused) {
  std::vector<std::string> all;
  for (const auto& [m, _] : llama_modules) all.push_back(m);
  write(all);
  expect_refused(targets(R"(["q_proj"])"),
                 {"peft/adapter_config.json: 'target_modules' = [\"q_proj\"] does not name "
                  "model.layers.0.mlp.down_proj, but ",
                  "adapter_model.safetensors contains its tensors"});
  expect_refused(targets(R"("q_proj")"), {"does not name"});
  expect_refused(R"({"target_modules": "all-linear", "exclude_modules": ".*up_proj"})",
                 {"'exclude_modules' = \".*up_proj\" does not name model.layers.0.mlp.up_proj"});
  write({"self_attn.q_proj"});
  expect_refused(targets(R"(["q_proj", "v_proj"])"),
                 {"peft/adapter_config.json: 'target_modules' = [\"q_proj\",\"v_proj\"] names "
                  "model.layers.0.self_attn.v_proj, but ",
                  "contains no tensors of it"});
  expect_refused(targets(R"(["q_proj", "lm_head"])"), {"names lm_head, but "});
  expect_refused(targets(R"(["q_proj", "embed_tokens"])"), {"names model.embed_tokens, but "});
  expect_refused(R"({"target_modules": ["q_proj"], "layers_to_transform": [0]})",
                 {"'layers_to_transform' = [0] does not name model.layers.1.self_attn.q_proj"});
  write({"self_attn.q_proj"}, {0});
  expect_refused(targets(R"(["q_proj"])"), {"names model.layers.1.self_attn.q_proj"});
  expect_refused(R"({"target_modules": ["q_proj"], "layers_to_transform": [0],
                     "layers_pattern": "h"})",
                 {"does not name model.layers.0.self_attn.q_proj"});
}

TEST_F(Adapters, EveryMessageNamesTheFileAndTheKey) {
  write({"self_attn.q_proj"});
  const std::pair<const char*, const char*> cases[] = {
      {R"({"peft_type": "IA3"})", "'peft_type' = \"IA3\""},
      {R"({"peft_type": null})", "'peft_type' = null"},
      {R"({"peft_type": 3})", "'peft_type' must be a string, but is 3"},
      {R"({"bias": "all"})", "'bias' = \"all\""},
      {R"({"target_parameters": ["mlp.experts.gate_up_proj"]})", "'target_parameters' = "},
      {R"({"rank_pattern": {"q_proj": 0}})", "'rank_pattern'"},
      {R"({"rank_pattern": {"q_proj": 2, ".*q_proj": 4}})", "several entries"},
      {R"({"alpha_pattern": {"q_proj": -1}})", "'alpha_pattern'"},
      {R"({"init_lora_weights": "pissa"})", "'init_lora_weights' = \"pissa\""},
      {R"({"r": null})", "'r' is missing"},
      {R"({"r": 2.5})", "'r' is not an integer"},
      {R"({"r": 0})", "'r' = 0"},
      {R"({"r": 100000})", "'r' = 100000"},
      {R"({"lora_alpha": null})", "'lora_alpha' is missing"},
      {R"({"lora_alpha": "4"})", "'lora_alpha'"},
      {R"({"lora_alpha": 0})", "'lora_alpha' = 0"},
      {R"({"lora_alpha": -1})", "'lora_alpha' = -1"},
      {R"({"lora_alpha": 1e300})", "'lora_alpha' = 1e+300"},
      {R"({"lora_dropout": 1.0})", "'lora_dropout' = 1.0"},
      {R"({"lora_dropout": 0.99999999999})", "'lora_dropout' = 0.9"},
      {R"({"lora_dropout": "x"})", "'lora_dropout'"},
      {R"({"use_rslora": 1})", "'use_rslora' must be true or false, but is 1"},
      {R"({"target_modules": null})", "'target_modules' is missing"},
      {R"({"target_modules": 3})", "'target_modules' = 3"},
      {R"({"target_modules": ["q_proj", 3]})", "'target_modules' = [\"q_proj\",3]"},
      {R"({"target_modules": "(q_proj"})", "'target_modules': the pattern (q_proj is invalid"},
      {R"({"exclude_modules": 3})", "'exclude_modules' = 3"},
      {R"({"layers_to_transform": ["x"]})", "'layers_to_transform' is not an integer"},
      {R"({"layers_pattern": 4})", "'layers_pattern' = 4"},
  };
  for (const auto& [change, says] : cases) {
    auto json = Json::parse(R"({"target_modules": ["q_proj"]})");
    json.update(Json::parse(change));
    expect_refused(json.dump(), {"peft/adapter_config.json cannot be imported: ", says});
  }
  EXPECT_EQ(import_with(targets(R"(["q_proj"])")), "");
}

// Each number is finite, and so is what a pair adds to outputs for inputs up to 1.
TEST_F(Adapters, WeightsThatOverflowAreRefused) {
  const auto inf = std::numeric_limits<float>::infinity();
  const std::string q = targets(R"(["q_proj"])");
  write({"self_attn.q_proj"}, {0, 1}, inf);
  expect_refused(q, {"layers.0.self_attn.q_proj.lora_A.weight of ", "is not finite as f32"});
  write({"self_attn.q_proj"}, {0, 1}, 0.5F, NAN);
  expect_refused(q, {"layers.0.self_attn.q_proj.lora_B.weight of ", "is not finite as f32"});
  const std::string large = "the adapter of model.layers.0.self_attn.q_proj has weights so large";
  for (const auto& [a, b] :
       {std::pair{3e38F, 0.0F}, {0.5F, 3e38F}, {1e30F, 1e20F}, {-1.5e37F, 1e-10F}}) {
    write({"self_attn.q_proj"}, {0, 1}, a, b);
    expect_refused(q, {large, "adapter_model.safetensors: "});
  }
  write({"self_attn.q_proj"}, {0, 1}, 1e18F, 1e18F);  // 24 * 2 * 2 of their product: below 3.4e38
  EXPECT_EQ(import_with(q), "");
}

// Phi-3 and GLM-4 have modules of several products.
TEST_F(Adapters, ModulesOfSeveralProductsAreRefused) {
  for (const std::string module : {"mlp.gate_up_proj", "self_attn.qkv_proj"}) {
    const auto name = "base_model.model.model.layers.0." + module;
    write_entries({{name + ".lora_A.weight", "F32", {pair_rank, 24}, 0, pair_rank * 24 * 4}});
    expect_refused(targets(R"(["q_proj", "gate_up_proj", "qkv_proj"])"),
                   {"peft/adapter_model.safetensors: the tensor " + name +
                        ".lora_A.weight cannot be imported, because its module computes several",
                    "merge_and_unload() of PEFT, and import the merged model"});
  }
}

// What transformers computes in one module of GLM-4, and in one tensor of gpt-oss.
TEST(SharedProducts, AreThoseOfGlm4AndOfPackedExperts) {
  const auto shared = [](const ModelConfig& model, const std::vector<std::string>& patterns) {
    AdapterConfig a;
    a.rank = 2;
    a.patterns = patterns;
    std::map<std::string, std::string> all;
    for (const auto& s : shared_products(make_spec(model, a)))
      all.emplace(pattern_of(s.product), s.module);
    return all;
  };
  using Shared = std::map<std::string, std::string>;
  EXPECT_EQ(shared(small_llama(), {"*"}), Shared());
  EXPECT_EQ(shared(small_mixtral(), {"*", "*.experts.*"}), Shared());
  EXPECT_EQ(shared(small_glm4(), {"*.qkv.*", "*.ffn_out"}), Shared());
  EXPECT_EQ(shared(small_glm4(), {"blocks.1.*"}),
            (Shared{{"blocks.*.ffn_in.gate", "model.layers.1.mlp.gate_up_proj"},
                    {"blocks.*.ffn_in.up", "model.layers.1.mlp.gate_up_proj"}}));
  EXPECT_EQ(shared(small_gpt_oss(), {"*", "*.experts.*.ffn_out"}),
            (Shared{{"blocks.*.experts.*.ffn_out", "model.layers.0.mlp.experts.down_proj"}}));
}

}  // namespace trireme
