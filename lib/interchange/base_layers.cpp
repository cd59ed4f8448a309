#include "lib/interchange/base_layers.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/interchange/adapter_names.hpp"
#include "lib/interchange/elements.hpp"
#include "lib/io/stored_doubles.hpp"

namespace trireme {

namespace {

// Returns true if x may be y, rounded to bf16 or f16.
bool may_be_rounded(double x, double y) {
  constexpr double bf16_relative = 0x1p-8;  // half a unit in the last of 8 significant bits
  constexpr double f16_smallest = 0x1p-24;  // the smallest subnormal number of f16
  return std::fabs(x - y) <= bf16_relative * std::fabs(y) + f16_smallest;
}

void require_same_up_to_rounding(const SafeTensor& theirs, const SafetensorsFile& file,
                                 const ParamSpec& ours, CheckpointReader& base) {
  constexpr std::int64_t most = 1 << 20;  // elements in memory
  const auto where = file.path().string();
  const auto type = element_type(theirs.type);
  const std::vector<std::int64_t> shape{ours.shape[0], ours.shape[1]};
  require(
      type && theirs.shape == shape,
      "{}: the tensor {} is {}, but the base model's {} has the shape [{}]. peft stores the base "
      "weight together with its adapter. If the vocabulary was resized, import the resized model, "
      "and pass it with --base",
      where, escaped(theirs.name), described(theirs), ours.name, fmt::join(shape, ", "));
  const auto size = static_cast<std::int64_t>(bytes_of(*type)), count = theirs.count();
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const auto n = std::min(most, count - begin);
    std::vector<std::byte> stored(static_cast<std::size_t>(n * size));
    file.read(theirs, begin * size, stored);
    std::vector<double> x(static_cast<std::size_t>(n));
    read_elements(*type, stored, DType::f64, std::as_writable_bytes(std::span(x)));
    const auto y = read_doubles(base, ours.name, begin, n);
    const auto [theirs_at, ours_at] = std::ranges::mismatch(x, y, may_be_rounded);
    if (theirs_at == x.end()) continue;
    fail(
        "{}: the tensor {} is a base weight, and its element {} is {} but {} in the base model {}. "
        "Pass the model that the adapter was trained on with --base",
        where, escaped(theirs.name), begin + (theirs_at - x.begin()), *theirs_at, *ours_at,
        base.directory().string());
  }
}

}  // namespace

void check_and_remove_base_weights(std::map<std::string, SafeTensor>& tensors,
                                   const ModelSpec& spec, const SafetensorsFile& file,
                                   CheckpointReader& base) {
  for (const auto& t : hf_tensors(make_spec(spec.config))) {
    for (const auto id : {spec.table, spec.head}) {
      const auto& weight = spec.params[id.index()];
      if (t.param != weight.name || !spec.adapter_of(id)) continue;
      const auto found = tensors.find(peft_name(module_of(t.name)) + ".base_layer.weight");
      if (found == tensors.end()) continue;
      require_same_up_to_rounding(found->second, file, weight, base);
      tensors.erase(found);
    }
  }
}

}  // namespace trireme
