#pragma once
// The weights of a folder of Hugging Face's: which file has which tensor, and where the elements of
// our parameters lie in them.
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/interchange/elements.hpp"
#include "lib/interchange/hf_names.hpp"
#include "lib/interchange/safetensors.hpp"

namespace trireme {

// Opens model.safetensors, or the files that model.safetensors.index.json names. Error when there
// are none, when the index and the files disagree, and for what is no safetensors.
class HfFolder {
 public:
  explicit HfFolder(const std::filesystem::path&);

  const std::filesystem::path& path() const { return path_; }
  std::size_t files() const { return files_.size(); }

  struct Place {
    const SafetensorsFile* file = nullptr;
    const SafeTensor* tensor = nullptr;
  };
  const std::map<std::string, Place>& places() const { return places_; }

 private:
  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> places_;  // by tensor
};

// A model's parameters in such a folder.
class HfWeights {
 public:
  // Error naming all tensors that are missing, unknown, of another shape or of a type that weights
  // do not have. Known buffers are left out; so is a tied model's head when it is the table.
  HfWeights(const HfFolder&, const ModelSpec&, ProductTensors = ProductTensors::apart);

  // f64 when all are, else f32: both exact.
  DType master() const;
  std::set<ElementType> types() const;
  std::size_t tensors() const { return names_; }  // of the folder
  std::size_t skipped() const { return skipped_; }
  // Elements of a parameter from `first` on. A transposed one is kept whole until another is asked
  // for.
  void read(const std::string& param, std::int64_t first, DType, std::span<std::byte> to);

 private:
  struct Source {
    HfTensor tensor;
    HfFolder::Place place;
    ElementType type;
  };

  void take(const ModelSpec&, ProductTensors);
  void require_head_is_table() const;
  void read_rows(const Source&, std::int64_t first, DType, std::span<std::byte> to);
  void transpose(const Source&, DType);
  template <class T>
  void transpose_as(const Source&);

  const HfFolder& folder_;
  std::vector<Source> tensors_;
  std::map<std::string, std::vector<std::size_t>> of_param_;  // in tensors_, in order of begin
  std::size_t names_ = 0, skipped_ = 0;
  std::vector<std::byte> stored_;  // as the file has it
  std::string kept_;               // the parameter in whole_
  std::vector<std::byte> whole_;
};

}  // namespace trireme
