#pragma once
// What a comparison found, as lines to read and as one JSON object, which say the same.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/compare/rounding.hpp"
#include "lib/compare/tables.hpp"
#include "lib/compare/tensors.hpp"

namespace trireme {

// Where tensors are: names of parameters and units, and A's stages.
struct ModelPlaces {
  ModelSpec spec;
  std::vector<int> stage_of_unit;  // by UnitId

  std::string unit(ParamId) const;
  int stage(ParamId) const;
};

class Report {
 public:
  using Json = nlohmann::ordered_json;

  // A line, and a field of the object; the field alone where there is no line.
  void say(const char* key, Json value, const std::string& line = {});
  // The same for fields that are lists.
  void add(const char* key, Json value, const std::string& line = {});

  void table(const char* key, const TableComparison&);
  void digests(const DigestComparison&, const ModelPlaces&);
  // `what`: "checkpoints of step 4".
  void tensors(const std::string& what, const TensorDifferences&, const ModelPlaces&);

  const std::string& text() const { return text_; }
  std::string json() const { return json_.dump(1) + "\n"; }

 private:
  Json json_;
  std::string text_;
};

// "gradients of blocks.1.qkv.weight (unit blocks.1, stage 0)"
std::string tensor_text(const TensorName&, const ModelPlaces&);
Report::Json tensor_json(const TensorName&, const ModelPlaces&);

}  // namespace trireme
