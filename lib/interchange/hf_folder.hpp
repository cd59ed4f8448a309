#pragma once
// Reads the weights in the folder of a Hugging Face model: finds the file of each tensor and
// converts elements to Trireme's parameters.
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/interchange/elements.hpp"
#include "lib/interchange/hf_tensors.hpp"
#include "lib/interchange/safetensors.hpp"

namespace trireme {

// The safetensors files of a folder: model.safetensors, or the files listed in
// model.safetensors.index.json. The constructor throws Error if there are none, if the index and
// the files disagree, or if a file is not in safetensors format.
class HfFolder {
 public:
  explicit HfFolder(const std::filesystem::path&);

  const std::filesystem::path& path() const { return path_; }
  std::size_t files() const { return files_.size(); }

  // Location of a tensor: its file and its description.
  struct Place {
    const SafetensorsFile* file = nullptr;
    const SafeTensor* tensor = nullptr;
  };
  // Returns the location of each tensor, by name.
  const std::map<std::string, Place>& places() const { return places_; }

 private:
  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  // Locations by tensor name.
  std::map<std::string, Place> places_;
};

// A model's parameters, read from the files of an HfFolder. The HfFolder must outlive this object.
class HfWeights {
 public:
  // Throws Error, listing the tensors, if tensors are missing or unknown, or have the wrong shape
  // or a type that weights cannot have. Known buffers are skipped. If the model has tied
  // embeddings, a separate head tensor must equal the embedding and is also skipped.
  HfWeights(const HfFolder&, const ModelSpec&, const Family&);

  // Returns f64 if any tensor is f64, otherwise f32. The returned type represents all elements
  // exactly.
  DType master() const;
  // Returns the element types of the tensors.
  std::set<ElementType> types() const;
  // Returns the number of tensors in the folder that are used.
  std::size_t tensors() const { return names_; }
  // Returns the number of tensors that are not used, such as known buffers.
  std::size_t skipped() const { return skipped_; }
  // Reads elements of a parameter from index `first` on, converted to the given type. A transposed
  // parameter stays in memory until another transposed parameter is read. Throws Error if an
  // element is not finite.
  void read(const std::string& param, std::int64_t first, DType, std::span<std::byte> to);

 private:
  struct Source {
    HfTensor tensor;
    HfFolder::Place place, scales;  // `scales` is for TensorStorage::mxfp4
    ElementType type;               // represents all elements exactly
  };

  void take(const ModelSpec&, const Family&);
  void require_head_is_table() const;
  void read_elements_of(const Source&, std::int64_t first, DType, std::span<std::byte> to);
  void read_permuted(const Source&, std::int64_t first, DType, std::span<std::byte> to);
  void read_mxfp4(const Source&, std::int64_t first, DType, std::span<std::byte> to);
  void transpose(const Source&, DType);
  template <class T>
  void transpose_as(const Source&);

  const HfFolder& folder_;
  std::vector<Source> tensors_;
  // For each parameter, indices in tensors_, in ascending order of `begin`.
  std::map<std::string, std::vector<std::size_t>> of_param_;
  std::size_t names_ = 0, skipped_ = 0;
  std::vector<std::byte> stored_;  // elements as stored in the file
  std::string kept_;               // name of the parameter in whole_
  std::vector<std::byte> whole_;
};

}  // namespace trireme
