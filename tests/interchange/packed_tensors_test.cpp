// Experts and products that share a tensor, or are stored in another form.
#include "tests/interchange/import_files.hpp"

namespace trireme {

using namespace test;

// One sentence each, before there is a checkpoint.
TEST_F(Import, ExpertsThatAreMissingOrOfAnotherShapeAreNamed) {
  export_model(small_qwen3_moe());
  const std::string mlp = "model.layers.2.mlp.", expert = mlp + "experts.4.";
  const auto whole = read_tensors(weights());
  change([&](auto& all) {
    std::erase_if(all, [&](auto& t) { return t.entry.name.starts_with(expert); });
  });
  expect_refused("3 tensors missing from the files: " + expert + "gate_proj.weight, " + expert +
                 "up_proj.weight, " + expert + "down_proj.weight");
  write_tensors(weights(), whole);
  change([&](auto& all) {
    for (auto& t : all)
      if (t.entry.name == expert + "up_proj.weight") t.entry.shape = {24, 12};
  });
  expect_refused("1 tensor with a wrong shape or type: " + expert +
                 "up_proj.weight is F32 [24, 12], not F32 [12, 24]");
  write_tensors(weights(), whole);

  auto json = parse_object(read_text(folder / "hf/config.json"), "config.json");
  const auto with_experts = [&](std::int64_t experts, const std::string& says) {
    json["num_experts"] = experts;
    folder.write("hf/config.json", json.dump());
    expect_refused(says);
  };
  with_experts(4, "unknown to this model: model.layers.0.mlp.experts.4.");
  with_experts(6, "model.layers.0.mlp.experts.5.gate_proj.weight");
  with_experts(1, "'num_experts_per_tok' = 2: a layer has 1 expert");
  with_experts(60000, "specifies 60000 experts in each of 2 layers, but the folder contains only ");
  with_experts(1'000'000'000, "model.experts = 1000000000 is out of range");
}

// As save_pretrained(save_original_format=False) of transformers 5 writes them.
TEST_F(Import, ExpertsMayStandTogether) {
  for (const auto& model : {small_mixtral(), small_qwen2_moe()}) {
    export_model(model);
    std::map<std::string, Tensor> together;
    std::vector<Tensor> rest;
    for (const auto& t : hf_tensors(family_of(model).tensors.at(1), make_spec(model))) {
      const auto bytes = weights_of(t.param, t.begin, t.shape.count(), DType::f32);
      auto& whole = together.try_emplace(t.name, tensor(t.name, "F32", {}, 0)).first->second;
      if (whole.bytes.empty()) {
        if (t.experts > 0) whole.entry.shape.push_back(t.experts);
        for (int d = 0; d < t.shape.dims(); ++d) whole.entry.shape.push_back(t.shape[d]);
      }
      whole.bytes.insert(whole.bytes.end(), bytes.begin(), bytes.end());
    }
    for (auto& [name, t] : together) rest.push_back(std::move(t));
    write_tensors(weights(), rest);

    EXPECT_EQ(import_folder(folder / "hf", folder / "back", {}).tensors, rest.size());
    expect_weights(folder / "back", model);
    std::filesystem::remove_all(folder / "back");
    change([](auto& all) {
      for (auto& t : all)
        if (t.entry.name == "model.layers.0.mlp.experts.down_proj") {
          t.entry.shape[0] = 4;
          t.bytes.resize(t.bytes.size() / 5 * 4);
        }
    });
    expect_refused(
        "1 tensor with a wrong shape or type: model.layers.0.mlp.experts.down_proj is F32 "
        "[4, 24, ");
    for (const auto* part : {"hf", "c"}) std::filesystem::remove_all(folder / part);
  }
}

// As Phi-3 has them.
TEST_F(Import, ProductsMayBePacked) {
  const auto model = small_llama();
  const auto phi3 = std::ranges::find(families(), "phi3", &Family::model_type);
  export_model(model);
  std::vector<Tensor> packed;
  for (const auto& t : hf_tensors(phi3->tensors.front(), make_spec(model))) {
    packed.push_back(tensor(t.name, "F32", {}, 0));
    for (int d = 0; d < t.shape.dims(); ++d) packed.back().entry.shape.push_back(t.shape[d]);
    packed.back().bytes = weights_of(t.param, t.begin, t.shape.count(), DType::f32);
  }
  write_tensors(weights(), packed);
  expect_refused("tensors missing from the files");
  auto json = parse_object(read_text(folder / "hf/config.json"), "config.json");
  json["model_type"] = "phi3";
  folder.write("hf/config.json", json.dump());
  EXPECT_EQ(import_folder(folder / "hf", folder / "back", {}).tensors, packed.size());
  expect_weights(folder / "back", model);
}

// Sets the experts of a model to numbers that MXFP4 represents, and writes them as OpenAI does.
// Returns the numbers of each parameter.
static std::map<std::string, std::vector<float>> quantize(const ModelConfig& model,
                                                          std::vector<Tensor>& all) {
  constexpr float magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::map<std::string, std::vector<float>> numbers;
  std::map<std::string, Tensor> made;
  for (const auto& t : hf_tensors(family_of(model).tensors.at(1), make_spec(model))) {
    if (t.storage != TensorStorage::mxfp4) continue;
    const auto out = t.shape[0], in = t.shape[1];
    auto& blocks = made.try_emplace(t.name, tensor(t.name, "U8", {t.experts, out, in / 32, 16}, 0))
                       .first->second;
    auto& scales = made.try_emplace(t.scales, tensor(t.scales, "U8", {t.experts, out, in / 32}, 0))
                       .first->second;
    auto& values = numbers[t.param];
    values.resize(static_cast<std::size_t>(out * in));
    for (std::int64_t r = 0; r < out; ++r) {
      // The file's row r is a row of the gate if r is even.
      const auto ours = t.group == 0 ? r : r / 2 + r % 2 * (out / 2);
      for (std::int64_t b = 0; b < in / 32; ++b) {
        const auto key = mix64(static_cast<std::uint64_t>(
            ((t.expert * out + r) * in + b) * 2 + static_cast<std::int64_t>(t.name.size())));
        const auto scale = 100 + key % 60;
        scales.bytes.push_back(static_cast<std::byte>(scale));
        for (std::int64_t i = 0; i < 32; i += 2) {
          const auto code = (mix64(key + static_cast<std::uint64_t>(i)) >> 20) & 255U;
          blocks.bytes.push_back(static_cast<std::byte>(code));
          for (const std::int64_t n : {0, 1}) {
            const auto four = n == 0 ? code & 15U : code >> 4U;
            const float x = (four & 8U ? -1.0F : 1.0F) * magnitudes[four & 7U];
            values[static_cast<std::size_t>(ours * in + b * 32 + i + n)] =
                std::ldexp(x, static_cast<int>(scale) - 127);
          }
        }
      }
    }
  }
  std::erase_if(all, [](auto& t) {
    return t.entry.name.ends_with("experts.gate_up_proj") ||
           t.entry.name.ends_with("experts.down_proj");
  });
  for (auto& [name, t] : made) all.push_back(std::move(t));
  return numbers;
}

TEST_F(Import, ExpertsMayBeInMxfp4) {
  auto model = small_gpt_oss();
  model.width = model.expert_width = 64;
  model.ffn_width = 64;
  export_model(model);
  std::map<std::string, std::vector<float>> numbers;
  change([&](auto& all) { numbers = quantize(model, all); });
  EXPECT_EQ(numbers.size(), 2U * 2 * 5);
  import();
  CheckpointReader reader(folder / "back");
  for (const auto& p : make_spec(model).params) {
    std::vector<std::byte> found(static_cast<std::size_t>(p.shape.count()) * sizeof(float));
    reader.read(p.name, weights_array, 0, p.shape.count(), found);
    const auto quantized = numbers.find(p.name);
    const auto wanted =
        quantized == numbers.end()
            ? weights_of(p.name, 0, p.shape.count(), DType::f32)
            : std::vector<std::byte>(std::as_bytes(std::span(quantized->second)).begin(),
                                     std::as_bytes(std::span(quantized->second)).end());
    EXPECT_TRUE(found == wanted) << p.name;
  }
  std::filesystem::remove_all(folder / "back");

  const auto whole = read_tensors(weights());
  const std::string blocks = "model.layers.1.mlp.experts.down_proj_blocks",
                    scales = "model.layers.1.mlp.experts.down_proj_scales";
  change([&](auto& all) { std::erase_if(all, [&](auto& t) { return t.entry.name == scales; }); });
  expect_refused("1 tensor missing from the files: " + scales);
  write_tensors(weights(), whole);
  change([&](auto& all) {
    for (auto& t : all)
      if (t.entry.name == blocks) t.entry.shape = {5, 64, 4, 8};
  });
  expect_refused(blocks + " is U8 [5, 64, 4, 8], not U8 [5, 64, 2, 16]");
  write_tensors(weights(), whole);
  change([&](auto& all) {
    for (auto& t : all)
      if (t.entry.name == scales) t.bytes[3] = std::byte{255};
  });
  expect_refused(blocks);
}

}  // namespace trireme
