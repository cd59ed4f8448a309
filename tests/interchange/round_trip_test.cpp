// A checkpoint that is exported and imported again is the checkpoint.
#include <nlohmann/json.hpp>

#include "lib/deck/checkpoint_deck.hpp"
#include "lib/interchange/export.hpp"
#include "lib/interchange/hf_folder.hpp"
#include "lib/interchange/import.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/interchange/tokenizer_files.hpp"
#include "lib/io/hdf5_handle.hpp"
#include "tests/interchange/model_files.hpp"

namespace trireme {

using namespace test;

TEST(RoundTrip, KeepsEveryBitOfEveryArchitecture) {
  for (const auto& [name, config] : small_models()) {
    SCOPED_TRACE(name);
    const ScratchFolder folder;
    CheckpointReader from(save_model(folder.path() / "checkpoints", config));
    const auto made =
        export_safetensors(StoredModel(from, description_of(from)), folder / "hf", {});
    EXPECT_EQ(made.files, 1U);
    EXPECT_FALSE(std::filesystem::exists(folder / "hf/model.safetensors.index.json"));

    const auto back = import_folder(folder / "hf", folder / "back", {});

    EXPECT_EQ(back.tensors, made.tensors);
    expect_weights(folder / "back", config);
    EXPECT_EQ(canonical(model_of(CheckpointReader(folder / "back"))), canonical(config));
  }
}

TEST(RoundTrip, TakesAnyLayoutAndShards) {
  for (const auto& cut : {Cut{2, 1}, Cut{1, 3}, Cut{2, 2}})
    for (const auto& [name, config] : small_models()) {
      if (name != "gpt2" && name != "qwen3" && name != "qwen2_moe") continue;
      const ScratchFolder folder;
      CheckpointReader from(save_model(folder.path() / "checkpoints", config, cut));
      constexpr std::int64_t most = 30000;

      const auto made =
          export_safetensors(StoredModel(from, description_of(from)), folder / "hf", {}, most);

      EXPECT_GT(made.files, 2U);
      for (const auto& entry : std::filesystem::directory_iterator(folder / "hf")) {
        if (entry.path().extension() != ".safetensors") continue;
        EXPECT_LE(entry.file_size(), static_cast<std::uintmax_t>(most)) << entry.path();
      }
      const auto index =
          nlohmann::json::parse(contents_of(folder / "hf/model.safetensors.index.json"));
      EXPECT_EQ(index.at("metadata").at("total_size"), made.bytes);
      EXPECT_EQ(index.at("weight_map").size(), made.tensors);
      EXPECT_EQ(import_folder(folder / "hf", folder / "back", {}).files, made.files);
      expect_weights(folder / "back", config);
    }
}

TEST(RoundTrip, KeepsDoubles) {
  const ScratchFolder folder;
  CheckpointReader from(save_model(folder.path() / "c", small_llama(), {}, DType::f64));
  export_safetensors(StoredModel(from, description_of(from)), folder / "hf", {});
  EXPECT_EQ(import_folder(folder / "hf", folder / "back", {}).master, DType::f64);
  expect_weights(folder / "back", small_llama(), DType::f64);
}

// A checkpoint takes large parameters in pieces.
TEST(RoundTrip, PiecesAreThoseOfTheWhole) {
  for (const auto& config : {small_gpt2(), small_llama(), small_mixtral()}) {
    const ScratchFolder folder;
    CheckpointReader from(save_model(folder.path() / "c", config));
    export_safetensors(StoredModel(from, description_of(from)), folder / "hf", {});
    const HfFolder files(folder / "hf");
    const auto spec = make_spec(config);
    HfWeights weights(files, spec, family_of(spec.config));
    for (const auto& p : spec.params)
      for (std::int64_t begin = 0, n = 13; begin < p.shape.count(); begin += n) {
        n = std::min(n, p.shape.count() - begin);
        std::vector<std::byte> piece(static_cast<std::size_t>(n) * 4);
        weights.read(p.name, begin, DType::f32, piece);
        ASSERT_TRUE(piece == weights_of(p.name, begin, n, DType::f32)) << p.name << " " << begin;
      }
  }
}

// What import(export) cannot show: the order of what is packed, against the definition.
TEST(RoundTrip, PacksQueriesKeysValuesAndTransposes) {
  const auto value = [](const std::string& param, std::int64_t i) {
    float x;
    std::memcpy(&x, weights_of(param, i, 1, DType::f32).data(), 4);
    return x;
  };
  const auto read = [](const std::string& file, const std::string& name) {
    const SafetensorsFile f(file);
    const auto t = std::ranges::find(f.tensors(), name, &SafeTensor::name);
    EXPECT_NE(t, f.tensors().end()) << name;
    std::vector<float> x(static_cast<std::size_t>(t->count()));
    f.read(*t, 0, std::as_writable_bytes(std::span(x)));
    return std::pair(t->shape, x);
  };
  const ScratchFolder folder;
  CheckpointReader llama(save_model(folder.path() / "l", small_llama()));
  CheckpointReader gpt2(save_model(folder.path() / "g", small_gpt2()));
  export_safetensors(StoredModel(llama, description_of(llama)), folder / "llama", {});
  export_safetensors(StoredModel(gpt2, description_of(gpt2)), folder / "gpt2", {});

  // 4 heads of queries and 2 each of keys and values, of 6 channels: rows 0, 24 and 36 of 48.
  const std::string l = folder / "llama/model.safetensors", g = folder / "gpt2/model.safetensors";
  const auto [k_shape, k] = read(l, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(k_shape, (std::vector<std::int64_t>{12, 24}));
  EXPECT_EQ(k[5 * 24 + 7], value("blocks.1.qkv.weight", (24 + 5) * 24 + 7));
  EXPECT_EQ(read(l, "model.layers.0.self_attn.v_proj.weight").second[3],
            value("blocks.0.qkv.weight", 36 * 24 + 3));
  EXPECT_EQ(read(l, "model.layers.0.mlp.up_proj.weight").second[2 * 24 + 1],
            value("blocks.0.ffn_in.weight", (20 + 2) * 24 + 1));
  const auto [c_shape, c] = read(g, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(c_shape, (std::vector<std::int64_t>{24, 72}));
  EXPECT_EQ(c[5 * 72 + 60], value("blocks.1.qkv.weight", 60 * 24 + 5));
}

// Its weights and settings, in the words of the deck.
TEST(Hdf5, IsTheModel) {
  auto config = small_llama();
  config.max_context = 40;
  config.rope_scaling = RopeScaling::llama3;
  config.rope_factor = 8;
  config.rope_low_freq_factor = 1.5;
  config.rope_high_freq_factor = 3;
  const ScratchFolder folder;
  const auto path = folder.path() / "weights.h5";
  CheckpointReader from(save_model(folder.path() / "c", config, {}, DType::f32, "", "", 17));
  export_hdf5(StoredModel(from, description_of(from)), path, {});

  const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open", path);
  for (const auto& p : make_spec(config).params) {
    const Hdf5Handle data(H5Dopen2(file, ("weights/" + p.name).c_str(), H5P_DEFAULT), H5Dclose,
                          "dataset", path);
    const Hdf5Handle space(H5Dget_space(data), H5Sclose, "space", path);
    std::vector<hsize_t> extents(static_cast<std::size_t>(p.shape.dims()));
    ASSERT_EQ(H5Sget_simple_extent_dims(space, extents.data(), nullptr), p.shape.dims());
    for (int d = 0; d < p.shape.dims(); ++d)
      EXPECT_EQ(extents[static_cast<std::size_t>(d)], p.shape[d]) << p.name;
    std::vector<std::byte> found(static_cast<std::size_t>(p.shape.count()) * 4);
    ASSERT_GE(H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
    EXPECT_TRUE(found == weights_of(p.name, 0, p.shape.count(), DType::f32)) << p.name;
  }
  const auto number = [&](const char* name) {
    double x = 0;
    const Hdf5Handle a(H5Aopen(file, name, H5P_DEFAULT), H5Aclose, name, path);
    hdf5_ok(H5Aread(a, H5T_NATIVE_DOUBLE, &x), name, path);
    return x;
  };
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, double>>{{"layers", 2},
                                                   {"width", 24},
                                                   {"heads", 4},
                                                   {"kv_heads", 2},
                                                   {"head_dim", 6},
                                                   {"ffn_width", 20},
                                                   {"vocab", 257},
                                                   {"context", 17},
                                                   {"max_context", 40},
                                                   {"norm_eps", 1e-5},
                                                   {"bias", 0},
                                                   {"rope_theta", 10000},
                                                   {"rope_factor", 8},
                                                   {"rope_low_freq_factor", 1.5},
                                                   {"rope_high_freq_factor", 3},
                                                   {"rope_original_context", 8192},
                                                   {"rope_beta_fast", 32},
                                                   {"rope_beta_slow", 1},
                                                   {"rope_truncate", 1},
                                                   {"rope_attention_factor", 0},
                                                   {"tied", 0},
                                                   {"step", 3}})
    EXPECT_EQ(number(name), value) << name;
}

TEST(Hdf5, NamesTheSettingsOfAMixture) {
  auto config = small_qwen2_moe();
  config.dense_layers = {0, 2};
  config.window = 9;
  config.window_layers = {1, 2};
  config.attention_sinks = true;
  const ScratchFolder folder;
  const auto path = folder.path() / "weights.h5";
  CheckpointReader from(save_model(folder.path() / "c", config));
  export_hdf5(StoredModel(from, description_of(from)), path, {});
  const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open", path);
  using Numbers = std::vector<std::int64_t>;
  for (const auto& [name, values] :
       std::vector<std::pair<const char*, Numbers>>{{"experts", {5}},
                                                    {"context", {17}},
                                                    {"max_context", {17}},
                                                    {"experts_per_token", {2}},
                                                    {"expert_width", {12}},
                                                    {"shared_expert_width", {14}},
                                                    {"shared_expert_gate", {1}},
                                                    {"norm_topk", {0}},
                                                    {"dense_layers", {0, 2}},
                                                    {"window", {9}},
                                                    {"window_layers", {1, 2}},
                                                    {"attention_sinks", {1}}}) {
    const Hdf5Handle a(H5Aopen(file, name, H5P_DEFAULT), H5Aclose, name, path);
    const Hdf5Handle space(H5Aget_space(a), H5Sclose, "space", path);
    Numbers found(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    hdf5_ok(H5Aread(a, H5T_NATIVE_INT64, found.data()), name, path);
    EXPECT_EQ(found, values) << name;
  }
}

// Byte 0, which `tokenize` puts behind a text.
TEST(TokenizerFiles, OfBytesHaveAnEnd) {
  const auto files = files_of({TokenizerKind::bytes, ""}, "here");
  EXPECT_FALSE(files.ids.begin);
  EXPECT_EQ(files.ids.ends, std::vector<std::int32_t>{0});
}

TEST(RoundTrip, ATokenizersFilesComeBackByteForByte) {
  const ScratchFolder folder;
  CheckpointReader from(save_model(folder.path() / "c", small_llama()));
  export_safetensors(StoredModel(from, description_of(from)), folder / "hf", {});
  const std::pair<const char*, std::string> files[] = {
      {"tokenizer.json",
       R"({"added_tokens": [{"id": 9, "content": "<e>"}], "model": {"vocab": {"<b>": 4}}})"},
      {"tokenizer_config.json", R"({"eos_token": {"content": "<e>"},  "bos_token": null})"},
      {"chat_template.jinja", "{{ \u00e4 }}\n\n"},
      {"special_tokens_map.json", R"({ "bos_token": "<b>"})"},
      {"generation_config.json", R"({"eos_token_id": [9, 10]} )"}};
  for (const auto& [name, text] : files) folder.write(std::string("hf/") + name, text);

  EXPECT_EQ(import_folder(folder / "hf", folder / "back", {}).tokenizer, "huggingface");
  CheckpointReader back(folder / "back");
  export_safetensors(StoredModel(back, description_of(back)), folder / "again", {});

  for (const auto& [name, text] : files)
    EXPECT_EQ(contents_of(folder.path() / "again" / name), text) << name;
  const auto config = nlohmann::json::parse(contents_of(folder / "again/config.json"));
  EXPECT_EQ(config.at("eos_token_id"), nlohmann::json::parse("[9, 10]"));
  EXPECT_EQ(config.at("bos_token_id"), 4);

  // Without a generation_config.json it is config.json that says what ends a text.
  std::filesystem::remove(folder.path() / "again/generation_config.json");
  import_folder(folder / "again", folder / "third", {});
  CheckpointReader third(folder / "third");
  export_safetensors(StoredModel(third, description_of(third)), folder / "last", {});
  EXPECT_EQ(
      nlohmann::json::parse(contents_of(folder / "last/generation_config.json")).at("eos_token_id"),
      nlohmann::json::parse("[9, 10]"));
}

// Of a folder without a tokenizer's files, whose generation_config.json, if there is one, says
// more.
TEST(RoundTrip, IdsThatBeginAndEndATextComeBackWithoutATokenizer) {
  const ScratchFolder folder;
  CheckpointReader from(save_model(folder.path() / "c", small_llama()));
  export_safetensors(StoredModel(from, description_of(from)), folder / "hf", {});
  auto config = nlohmann::json::parse(contents_of(folder / "hf/config.json"));
  config.update(
      nlohmann::json::parse(R"({"bos_token_id": 0, "eos_token_id": [2, 7], "pad_token_id": 1})"));
  folder.write("hf/config.json", config.dump());
  const auto again = [&](const std::string& name) {
    import_folder(folder / "hf", folder / name, {});
    CheckpointReader back(folder / name);
    export_safetensors(StoredModel(back, description_of(back)), folder / (name + "-hf"), {});
    const auto read = [&](const char* file) {
      return nlohmann::json::parse(contents_of(folder.path() / (name + "-hf") / file));
    };
    const auto theirs = read("config.json");
    EXPECT_EQ(theirs.at("bos_token_id"), 0) << name;
    EXPECT_EQ(theirs.at("pad_token_id"), 1) << name;
    return std::pair(theirs.at("eos_token_id"), read("generation_config.json"));
  };
  std::filesystem::remove(folder.path() / "hf/generation_config.json");
  EXPECT_EQ(again("alone"), std::pair(config["eos_token_id"], nlohmann::json::parse(R"(
      {"bos_token_id": 0, "eos_token_id": [2, 7], "pad_token_id": 1})")));
  folder.write("hf/generation_config.json", R"({"eos_token_id": 9, "temperature": 0.5})");
  EXPECT_EQ(again("both"), std::pair(nlohmann::json(9), nlohmann::json::parse(R"(
      {"bos_token_id": 0, "eos_token_id": 9, "pad_token_id": 1, "temperature": 0.5})")));
  // Of a tokenizer.json without the files that name its tokens, too.
  folder.write("hf/tokenizer.json", R"({"added_tokens": [], "model": {"vocab": {}}})");
  std::filesystem::remove(folder.path() / "hf/generation_config.json");
  EXPECT_EQ(again("named"), std::pair(config["eos_token_id"], nlohmann::json::parse(R"(
      {"bos_token_id": 0, "eos_token_id": [2, 7], "pad_token_id": 1})")));
}

}  // namespace trireme
