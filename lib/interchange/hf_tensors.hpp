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
  TensorOrder order = TensorOrder::same;
  // Number that is added to the tensor's elements to get Trireme's elements.
  double plus = 0;
  // Number of experts in the tensor, one after the other, and the expert that this part belongs to.
  // `experts` is 0 if the tensor does not contain several experts.
  std::int64_t expert = 0;
  std::int64_t experts = 0;
  // For TensorOrder::rotary_pairs: channels of a head, and how many of them rotate.
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;
  bool operator==(const HfTensor&) const = default;

  // Number of elements in a row: 1 for a vector.
  std::int64_t columns() const { return shape.dims() == 1 ? 1 : shape[1]; }
  // Returns the row of the tensor that contains this row of the parameter's part. For
  // TensorOrder::same and rotary_pairs.
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
