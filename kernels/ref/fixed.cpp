// Sums as counts of quanta.
#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "kernels/ref/quanta.hpp"

namespace trireme::ref {

void run(const kernel::AddFixed& o) {
  expect(o.sum_N.count() == o.x_N.count() && o.sum_N.dense() && o.x_N.dense(),
         "add_fixed: of dense views of one size");
  if (o.how == Accumulate::overwrite) run(kernel::Fill{.dst = o.sum_N, .value = 0});
  const Quanta sum(o.sum_N, o.largest);
  const auto* x = reinterpret_cast<const float*>(o.x_N.data);
  for (std::int64_t i = 0; i < o.x_N.count(); ++i) sum.add(i, x[i]);
}

}  // namespace trireme::ref
