// Dropout on what is drawn at random.
#include "tests/kernels/error_bounds.hpp"
#include "tests/kernels/fuzz.hpp"

namespace trireme::fuzzing {
namespace {

class DropoutFuzzContract : public FuzzContract {};
INSTANTIATE_TEST_SUITE_P(Backends, DropoutFuzzContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

TEST_P(DropoutFuzzContract, Dropout) {
  fuzz([&](Draw& d) {
    enum class Into { fresh, x, skip };
    const auto [rows, width] = some_rows(d);
    const auto samples = d.between(1, 3);
    const Shape s{samples, rows, width};
    const auto n = s.count(), t0 = d.once_in(3) ? d.between(0, 1LL << 33) : d.between(0, 5);
    const auto p = d.once_in(5) ? 0.0F : static_cast<float>(d.real(0, 0.97));
    const auto odd = some_odd(d);
    const bool skips = d.once_in(2);
    const auto into =
        skips ? d.one_of({Into::fresh, Into::x, Into::skip}) : d.one_of({Into::fresh, Into::x});
    const auto of_x = numbers(d, n, odd), of_skip = numbers(d, n, odd);
    std::vector<std::int64_t> sample_numbers;
    for (std::int64_t b = 0; b < samples; ++b)
      sample_numbers.push_back(static_cast<std::int64_t>(d.bits() >> d.between(1, 60)));
    const auto key = d.bits();
    const auto at_x = some_margins(d), at_skip = some_margins(d), at_y = some_margins(d);
    compare(fmt::format("{} samples, {}, p {}", samples, describe({rows, width}), p),
            [=](Lab& lab) {
              const Placed x(lab, &Lab::values, s, of_x, at_x);
              const Placed skip(lab, &Lab::values, s, of_skip, at_skip);
              const Placed fresh(lab, &Lab::values, s, unwritten(n), at_y);
              const Placed& y = into == Into::x ? x : into == Into::skip ? skip : fresh;
              lab.backend.put(queue, kernel::Dropout{.y_BTC = y.here,
                                                     .x_BTC = x.here,
                                                     .skip_BTC = skips ? skip.here : View{},
                                                     .key = {key, p},
                                                     .rows = {lab.numbers(sample_numbers), t0}});
              const double size = 1 + 1 / (1 - static_cast<double>(p));
              y.result(lab, "y", 4 * roundoff(wide(lab.tested)) * size);
            });
  });
}

}  // namespace
}  // namespace trireme::fuzzing
