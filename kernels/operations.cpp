#include "kernels/operations.hpp"

#include "lib/base/error.hpp"

namespace trireme::kernel {

std::string_view name_of(const Operation& operation) {
  return std::visit([](const auto& o) { return o.name; }, operation);
}

void check_operands(const Operation& operation) {
  const int missing = std::visit([](const auto& o) { return missing_operand(o); }, operation);
  require(missing < 0, "{}: operand {} (from 0, as kernels/operations.hpp lists them) is absent",
          name_of(operation), missing);
}

}  // namespace trireme::kernel
