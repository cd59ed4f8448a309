#pragma once
// The result of a comparison, as lines of text and as one JSON object with the same contents.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/compare/rounding.hpp"
#include "lib/compare/tables.hpp"
#include "lib/compare/tensors.hpp"

namespace trireme {

// Where tensors are in a model: names of parameters and units, and the pipeline stages of run A.
struct ModelPlaces {
  ModelSpec spec;
  std::vector<int> stage_of_unit;  // indexed by UnitId

  std::string unit(ParamId) const;
  int stage(ParamId) const;
};

// Collects the lines of text and the JSON fields of a comparison's result.
class Report {
 public:
  using Json = nlohmann::ordered_json;

  // Adds a line of text and sets a field of the JSON object. An empty `line` sets only the field.
  void say(const std::string& key, Json value, const std::string& line = {});
  // Adds a line of text, and appends `value` to a JSON field that is a list.
  void add(const char* key, Json value, const std::string& line = {});

  // Adds the result for one table. `key` names the table.
  void table(const std::string& key, const TableComparison&);
  // Adds the result of comparing the digests of two runs.
  void digests(const DigestComparison&, const ModelPlaces&);
  // Adds the result of comparing the tensors of two states. `what` describes the states, for
  // example "checkpoints of step 4".
  void tensors(const std::string& what, const TensorDifferences&, const ModelPlaces&);

  const std::string& text() const { return text_; }
  std::string json() const { return json_.dump(1) + "\n"; }

 private:
  Json json_;
  std::string text_;
};

// Describes a tensor as text, such as "gradients of blocks.1.qkv.weight (unit blocks.1, stage 0)".
std::string tensor_text(const TensorName&, const ModelPlaces&);
// Describes a tensor as a JSON object with the same information as tensor_text().
Report::Json tensor_json(const TensorName&, const ModelPlaces&);

}  // namespace trireme
