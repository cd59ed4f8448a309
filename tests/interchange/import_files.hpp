#pragma once
// A folder with an exported model, whose tensors a test changes and which is then imported.
#include "lib/interchange/import.hpp"

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/base/array_names.hpp"
#include "lib/base/json.hpp"
#include "lib/base/log.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/deck/checkpoint_deck.hpp"
#include "lib/interchange/export.hpp"
#include "lib/interchange/hf_tensors.hpp"
#include "lib/interchange/safetensors.hpp"
#include "tests/interchange/model_files.hpp"

namespace trireme::test {

struct Tensor {
  SafeTensor entry;
  std::vector<std::byte> bytes;
};

inline std::vector<Tensor> read_tensors(const std::string& path) {
  const SafetensorsFile file(path);
  std::vector<Tensor> all;
  for (const auto& t : file.tensors()) {
    all.push_back({t, std::vector<std::byte>(static_cast<std::size_t>(t.bytes))});
    file.read(t, 0, all.back().bytes);
  }
  return all;
}

inline void write_tensors(const std::string& path, const std::vector<Tensor>& all) {
  std::filesystem::remove(path);
  std::vector<SafeTensor> entries;
  for (const auto& t : all) entries.push_back(t.entry);
  SafetensorsWriter file(path, entries);
  for (const auto& t : all) file.append(t.bytes);
  file.finish();
}

class Import : public testing::Test {
 protected:
  void export_model(const ModelConfig& model, std::int64_t shard = default_shard_bytes) {
    CheckpointReader from(save_model(folder.path() / "c", model));
    export_safetensors(StoredModel(from, description_of(from)), folder / "hf", {}, shard);
  }
  // Changes the only file's tensors.
  template <class F>
  void change(F f) {
    auto all = read_tensors(weights());
    f(all);
    write_tensors(weights(), all);
  }
  std::string weights() const { return folder / "hf/model.safetensors"; }
  void import() { import_folder(folder / "hf", folder / "back", {}); }
  void expect_refused(const std::string& says) {
    const auto text = message_of<Error>([&] { import(); });
    EXPECT_NE(text.find(says), std::string::npos) << text;
    EXPECT_FALSE(std::filesystem::exists(folder / "back"));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".back.partial"));
  }
  ScratchFolder folder;
};

inline Tensor tensor(std::string name, std::string type, std::vector<std::int64_t> shape,
                     std::size_t bytes) {
  return {{std::move(name), std::move(type), std::move(shape), 0, 0},
          std::vector<std::byte>(bytes)};
}

}  // namespace trireme::test
