// What a folder may hold, and what it must not.
#include <gmock/gmock.h>

#include "tests/interchange/import_files.hpp"

namespace trireme {

using namespace test;

TEST_F(Import, AllTensorsThatAreMissingUnknownOrOfAnotherShapeAreNamed) {
  export_model(small_llama());
  change([](auto& all) {
    std::erase_if(all, [](auto& t) { return t.entry.name == "model.norm.weight"; });
    all.push_back(tensor("model.layers.0.extra", "F32", {1}, 4));
    for (auto& t : all)
      if (t.entry.name == "lm_head.weight") std::swap(t.entry.shape[0], t.entry.shape[1]);
  });
  const auto text = message_of<Error>([&] { import(); });
  for (const char* says : {"1 tensor missing from the files: model.norm.weight",
                           "1 tensor unknown to this model: model.layers.0.extra",
                           "lm_head.weight is F32 [24, 257], not F32 [257, 24]"})
    EXPECT_NE(text.find(says), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(folder / "back"));
}

TEST_F(Import, AContextIsThatOfSamplesAndNotOfTheModel) {
  for (const auto& model : {small_llama(), small_gpt2()}) {
    std::filesystem::remove_all(folder / "c");
    std::filesystem::remove_all(folder / "hf");
    export_model(model);
    const auto described = [&](const ImportOptions& options) {
      std::filesystem::remove_all(folder / "back");
      const auto there = import_folder(folder / "hf", folder / "back", options).described;
      const auto read = description_of(CheckpointReader(folder / "back"));
      EXPECT_EQ(read.model, there.model);
      EXPECT_EQ(read.context, there.context);
      return there;
    };
    for (const std::int64_t context : {5, 17}) {
      const auto there = described({.context = context});
      EXPECT_EQ(there.context, context);
      EXPECT_EQ(there.model, model);
    }
    EXPECT_EQ(described({}).context, 17);
    EXPECT_EQ(described({}).model, model);
    if (model.positions == Positions::rotary) {
      EXPECT_EQ(described({.context = 18}).context, 18);
      EXPECT_EQ(described({.context = 18}).model.max_context, 18);
    } else {
      EXPECT_THAT(
          message_of<Error>([&] { described({.context = 18}); }),
          testing::HasSubstr("config.json cannot be imported: --context 18 is more than the "
                             "17 learned positions of the model: lower --context"));
    }
  }
}

TEST_F(Import, OtherTypesAreRefused) {
  export_model(small_llama());
  change([](auto& all) {
    for (auto& t : all)
      if (t.entry.name == "model.norm.weight") t = tensor("model.norm.weight", "F8_E4M3", {24}, 24);
  });
  expect_refused("model.norm.weight is F8_E4M3 [24]");
}

TEST_F(Import, KnownBuffersAreLeftOutAndNamesMayLackTheirPrefix) {
  export_model(small_gpt2());
  change([](auto& all) {
    for (auto& t : all) t.entry.name.erase(0, std::string("transformer.").size());
    all.push_back(tensor("h.0.attn.bias", "U8", {1, 1, 2, 2}, 4));
    all.push_back(tensor("h.1.attn.masked_bias", "F32", {}, 4));
  });
  EXPECT_EQ(import_folder(folder / "hf", folder / "back", {}).skipped, 2U);
  expect_weights(folder / "back", small_gpt2());
}

TEST_F(Import, ATiedModelsHeadMayBeItsTableOnceMoreAndNothingElse) {
  export_model(small_gpt2());
  const auto add_head = [](auto& all) {
    auto head = all[0];
    for (auto& t : all)
      if (t.entry.name == "transformer.wte.weight") head = t;
    head.entry.name = "lm_head.weight";
    all.push_back(head);
  };
  change(add_head);
  import();
  expect_weights(folder / "back", small_gpt2());
  std::filesystem::remove_all(folder / "back");
  change([](auto& all) {
    for (auto& t : all)
      if (t.entry.name == "lm_head.weight") t.bytes.back() ^= std::byte{1};
  });
  expect_refused("'tie_word_embeddings'");
}

TEST_F(Import, ATokenizerThatCannotBeUsedIsNamedAndGoesAlong) {
  export_model(small_llama());
  const std::string unigram = R"({"model": {"type": "Unigram", "vocab": []}})";
  folder.write("hf/tokenizer.json", unigram);
  log_to(folder.path() / "log");
  import();
  log_to({});
  const auto said = read_text(folder / "log");
  EXPECT_NE(said.find("Unigram"), std::string::npos) << said;
  EXPECT_NE(said.find("pass another tokenizer"), std::string::npos) << said;
  const CheckpointReader back(folder / "back");
  EXPECT_NE(back.meta().tokenizer.find("Unigram"), std::string::npos);
}

TEST_F(Import, HalvesAndBf16AreReadExactly) {
  export_model(small_llama());
  std::vector<std::uint16_t> bits(24);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(0x3c00 + i);
  change([&](auto& all) {
    for (auto& t : all) {
      const bool first = t.entry.name == "model.layers.0.input_layernorm.weight";
      if (!first && t.entry.name != "model.norm.weight") continue;
      t.entry.type = first ? "F16" : "BF16";
      const auto half = std::as_bytes(std::span(bits));
      t.bytes.assign(half.begin(), half.end());
    }
  });
  import();
  CheckpointReader back(folder / "back");
  std::vector<float> x(24);
  back.read("blocks.0.attention_norm.weight", weights_array, 0, 24,
            std::as_writable_bytes(std::span(x)));
  EXPECT_EQ(x[3], 1 + 3 * 0x1p-10F);
  back.read("final_norm.weight", weights_array, 0, 24, std::as_writable_bytes(std::span(x)));
  EXPECT_EQ(x[3], 0x1p-7F * (1 + 3 * 0x1p-7F));  // 0x3c03
}

TEST_F(Import, WeightsThatAreNoFiniteNumbersAreNamed) {
  for (const auto& [model, name] :
       {std::pair{small_llama(), "model.layers.1.mlp.down_proj.weight"},
        std::pair{small_gpt2(), "transformer.h.1.mlp.c_fc.weight"}}) {  // transposed
    export_model(model);
    change([&](auto& all) {
      for (auto& t : all)
        if (t.entry.name == name) std::memcpy(&t.bytes[4 * 31], "\0\0\x80\xff", 4);
    });
    expect_refused(fmt::format("{} of {} is not finite as f32 at element 31", name, weights()));
    for (const auto* part : {"hf", "c"}) std::filesystem::remove_all(folder / part);
  }
}

TEST_F(Import, PointersOfGitLfsAreNamed) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 988097824\n";
  export_model(small_llama());
  for (const auto* file :
       {"tokenizer.model", "tokenizer.json", "config.json", "model.safetensors"}) {
    const auto name = std::string("hf/") + file;
    const bool there = std::filesystem::exists(folder / name);
    const auto before = there ? contents_of(folder / name) : "";
    folder.write(name, pointer);
    expect_refused("a Git LFS pointer and not the file itself: run git lfs pull");
    expect_refused(file);
    if (there)
      folder.write(name, before);
    else
      std::filesystem::remove(folder / name);
  }
}

TEST_F(Import, FilesAndTheirIndexMustAgree) {
  export_model(small_llama(), 30000);
  const auto index = folder / "hf/model.safetensors.index.json";
  auto json = parse_object(read_text(index), index);
  const std::string first = json["weight_map"]["model.norm.weight"];
  json["weight_map"]["model.norm.weight"] = "model-00001-of-00003.safetensors";
  json["weight_map"]["lm_head.weight"] = first;
  folder.write("hf/model.safetensors.index.json", json.dump());
  expect_refused("is incomplete");
  json["weight_map"]["lm_head.weight"] = "../elsewhere.safetensors";
  folder.write("hf/model.safetensors.index.json", json.dump());
  expect_refused("not a plain file name");
  json["weight_map"]["lm_head.weight"] = first + std::string("\0", 1);
  folder.write("hf/model.safetensors.index.json", json.dump());
  expect_refused("\\x00' is not a plain file name");
  json["weight_map"]["lm_head.weight"] = "gone.safetensors";
  json["weight_map"]["model.norm.weight"] = "lost\n.safetensors";
  folder.write("hf/model.safetensors.index.json", json.dump());
  expect_refused("index.json lists files that are missing (gone.safetensors, lost\\n.safetensors)");
}

TEST_F(Import, FoldersWithoutSafetensorsAreToldWhatToDo) {
  expect_refused("there is no folder");
  const auto hub = message_of<Error>([&] { import_folder("Qwen/None-1B", folder / "back", {}); });
  EXPECT_NE(hub.find("hf download Qwen/None-1B --local-dir"), std::string::npos) << hub;
  folder.write("hf/config.json", "{}");
  expect_refused("contains neither");
  folder.write("hf/pytorch_model-00001-of-00002.bin", "x");
  expect_refused("save_pretrained(\"NEW\")");
  std::filesystem::remove(folder / "hf/pytorch_model-00001-of-00002.bin");
  folder.write("hf/adapter_model.safetensors", "x");
  expect_refused("adapter");
}

TEST_F(Import, AFolderWithoutSettingsOrWithSettingsOfAnotherModelIsRefused) {
  export_model(small_llama());
  auto json = parse_object(read_text(folder / "hf/config.json"), "config.json");
  json["num_hidden_layers"] = 3;
  folder.write("hf/config.json", json.dump());
  expect_refused("model.layers.2.input_layernorm.weight");
  json["num_hidden_layers"] = 10000;
  folder.write("hf/config.json", json.dump());
  expect_refused("specifies 10000 layers, but the folder contains only 21 tensors");
  json["num_hidden_layers"] = 1'000'000'000;  // nothing is built of it
  folder.write("hf/config.json", json.dump());
  expect_refused("layers = 1000000000 is out of range");
  folder.write("hf/config.json", "{");
  expect_refused("config.json is damaged");
  std::filesystem::remove(folder / "hf/config.json");
  expect_refused("config.json");
}

TEST_F(Import, WhatExistsStays) {
  export_model(small_llama());
  folder.write("back", "mine");
  const auto text = message_of<Error>([&] { import(); });
  EXPECT_NE(text.find("exists"), std::string::npos) << text;
  EXPECT_EQ(contents_of(folder / "back"), "mine");
}

TEST_F(Import, APresetTakesTheShapeAndKeysOverrideIt) {
  export_model(small_llama());
  import();
  const std::string rest = "[data]\npath = \"/x\"\n[train]\nsteps = 1\n";
  const auto deck = parse_deck(
      "[model]\npreset = \"from:" + (folder / "back") + "\"\ncontext = 5\ndropout = 0.25\n" + rest,
      "d.toml");
  EXPECT_EQ(deck.data.context, 5);
  EXPECT_EQ(deck.train.dropout, 0.25);
  EXPECT_EQ(deck.model, small_llama());
  EXPECT_EQ(small_llama().max_context, 17);
  EXPECT_EQ(parse_deck(dump_deck(deck), "d.toml"), deck);
  const auto run =
      parse_deck("[model]\npreset = \"from:" + (folder / "c").substr(0) + "\"\n" + rest, "d.toml",
                 std::vector<std::string>{"model.preset=from:" + (folder / "back")});
  EXPECT_EQ(run.model, small_llama());
  EXPECT_EQ(run.data.context, 17);
  const auto text = message_of<Error>(
      [&] { parse_deck("[model]\npreset = \"from:/nowhere\"\n" + rest, "d.toml"); });
  EXPECT_NE(text.find("d.toml:2:10: model.preset: there is no /nowhere"), std::string::npos)
      << text;
  const auto empty =
      message_of<Error>([&] { parse_deck("[model]\npreset = \"from:\"\n" + rest, "d.toml"); });
  EXPECT_NE(empty.find("\"from:DIR\""), std::string::npos) << empty;
}

}  // namespace trireme
