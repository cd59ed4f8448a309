// Sums as counts of quanta.
#include "kernels/host/kernels.hpp"
#include "kernels/host/quanta.hpp"

namespace trireme::host {

void run(const kernel::AddFixed& o, View) {
  expect(o.sum_N.count() == o.x_N.count() && o.sum_N.dense() && o.x_N.dense(),
         "add_fixed: of dense views of one size");
  for_chunks(o.x_N.count(), 4 * grain, [&](std::int64_t begin, std::int64_t end) {
    const float* x = data<float>(o.x_N) + begin;
    add_quanta(data<std::int64_t>(o.sum_N) + begin, o.how, x, end - begin);
    Largest largest;
    largest.take(x, end - begin);
    largest.put(o.largest);
  });
}

}  // namespace trireme::host
