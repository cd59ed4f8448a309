#pragma once
// Examples of every operation; one that has none does not compile.
#include <concepts>
#include <type_traits>
#include <utility>
#include <variant>

#include "tests/kernels/examples/copies.hpp"
#include "tests/kernels/examples/fp8.hpp"
#include "tests/kernels/examples/norms.hpp"
#include "tests/kernels/examples/pointwise.hpp"
#include "tests/kernels/examples/products.hpp"
#include "tests/kernels/examples/routing.hpp"
#include "tests/kernels/examples/tokens.hpp"
#include "tests/kernels/examples/updates.hpp"

namespace trireme {

template <class O>
concept HasExamples = requires {
  { examples(Of<O>{}) } -> std::same_as<Examples<O>>;
};

// f(Of<O>{}) for every operation there is.
template <class F, std::size_t... i>
void for_each_operation(const F& f, std::index_sequence<i...>) {
  static_assert((HasExamples<std::variant_alternative_t<i, kernel::Operation>> && ...),
                "an operation has no examples: give it some in tests/kernels/examples");
  (f(Of<std::variant_alternative_t<i, kernel::Operation>>{}), ...);
}
template <class F>
void for_each_operation(const F& f) {
  for_each_operation(f, std::make_index_sequence<std::variant_size_v<kernel::Operation>>{});
}

}  // namespace trireme
