#pragma once
// The correspondence between the tensors of a Hugging Face model and Trireme's parameters, for one
// model.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/interchange/family.hpp"
#include "lib/model/spec.hpp"

namespace trireme {

// A tensor of a Hugging Face model, and the corresponding part of a Trireme parameter.
struct HfTensor {
  std::string name;
  Shape shape;
  // Name of Trireme's parameter.
  std::string param;
  // Index of the parameter's first element that the tensor contains. The tensor corresponds to
  // elements [begin, begin + shape.count()), in row-major order.
  std::int64_t begin = 0;
  TensorStorage storage = TensorStorage::rows;
  // Name of the tensor with the scales, for TensorStorage::mxfp4.
  std::string scales{};
  // Number that is added to the tensor's elements to get Trireme's elements.
  double plus = 0;
  // Number of experts in the tensor, one after the other, and the expert that this part belongs to.
  // `experts` is 0 if the tensor does not contain several experts.
  std::int64_t expert = 0;
  std::int64_t experts = 0;
  // The parameter's rows are divided into groups of `group` rows. In the tensor, the first rows of
  // the two halves of a group are interleaved: `interleaved` rows in total. The other rows of the
  // group follow. If `group` is 0, the rows of the tensor have the order of the parameter.
  std::int64_t group = 0;
  std::int64_t interleaved = 0;
  bool operator==(const HfTensor&) const = default;

  // Numbers of rows and columns of the parameter's part. A vector has one column.
  std::int64_t rows() const { return shape[storage == TensorStorage::columns ? 1 : 0]; }
  std::int64_t columns() const { return shape.count() / rows(); }
  // Returns the row of the tensor, or its column for TensorStorage::columns, that contains this row
  // of the parameter's part.
  std::int64_t row_in_tensor(std::int64_t row) const;
};

// Returns all tensors of a model in the order of the forward pass. The tensors of one parameter are
// in ascending order of `begin`. Each element of each parameter is in exactly one tensor. Throws
// Error if the table has no tensor for a parameter.
std::vector<HfTensor> hf_tensors(const TensorTable&, const ModelSpec&);
// Returns the tensors that an export of the model writes.
std::vector<HfTensor> hf_tensors(const ModelSpec&);

// Name of the head's tensor in all families.
inline constexpr std::string_view hf_head = "lm_head.weight";

// Returns true for masks and rotary frequencies, which old files contain in addition to the
// weights. They can be computed from the settings and are skipped.
bool is_known_buffer(std::string_view name);

}  // namespace trireme
