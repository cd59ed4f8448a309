// Embedding's gradient and cross entropy on what is drawn at random.
#include "tests/kernels/error_bounds.hpp"
#include "tests/kernels/fuzz.hpp"

namespace trireme::fuzzing {
namespace {

class TokenFuzzContract : public FuzzContract {};
INSTANTIATE_TEST_SUITE_P(Backends, TokenFuzzContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

TEST_P(TokenFuzzContract, EmbeddingGradient) {
  fuzz([&](Draw& d) {
    const auto vocab = d.one_of<std::int64_t>({1, 2, 17, d.between(1, 300)});
    const auto width = d.once_in(4) ? 8 * d.between(1, 40) : d.between(1, 140);
    const auto most = std::clamp<std::int64_t>(8000 / width, 1, 200);
    const auto rows = d.once_in(15) ? 0 : d.between(1, most);
    const auto rare = d.between(1, 6);  // others are all the same id
    const auto common = d.between(0, vocab - 1);
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < rows; ++t)
      ids.push_back(static_cast<std::int32_t>(d.once_in(rare) ? d.between(0, vocab - 1) : common));
    const auto how = d.one_of({Accumulate::overwrite, Accumulate::add});
    const auto odd = some_odd(d);
    const auto of_dy = numbers(d, rows * width, odd);
    const auto of_table =
        how == Accumulate::add ? numbers(d, vocab * width, odd) : unwritten(vocab * width);
    const auto at_dy = some_margins(d), at_table = some_margins(d);
    compare(fmt::format("{} rows of {}, {} ids", rows, width, vocab), [=](Lab& lab) {
      const Placed dy(lab, &Lab::values, {rows, width}, of_dy, at_dy);
      const Placed dtable(lab, &Lab::wide_values, {vocab, width}, of_table, at_table);
      lab.backend.put(
          queue,
          kernel::EmbeddingGrad{
              .dtable_VC = dtable.here, .how = how, .dy_TC = dy.here, .ids_T = lab.ids(ids)});
      dtable.result(lab, "dtable", sum_error(lab.tested, rows, static_cast<double>(rows + 1)));
    });
  });
}

TEST_P(TokenFuzzContract, CrossEntropy) {
  fuzz([&](Draw& d) {
    const auto near =
        d.one_of<std::int64_t>({1024, 4096, 8192}) + d.one_of<std::int64_t>({-1, 0, 1, 8});
    const auto vocab = d.once_in(5)   ? near
                       : d.once_in(3) ? 8 * d.between(1, 100)
                                      : d.between(1, 400);
    const auto rows =
        d.once_in(15) ? 0 : d.between(1, std::clamp<std::int64_t>(4000 / vocab, 1, 6));
    const double amplitude = d.one_of({0.1, 5.0, 80.0, 1e4}), scale = d.real(1e-4, 2);
    const auto odd = some_odd(d);
    auto of_z = numbers(d, rows * vocab, odd, amplitude);
    const auto masked = d.one_of<std::int64_t>({1, 2, 4, 1000});  // one in so many; 1: all
    std::vector<std::int32_t> targets;
    for (std::int64_t t = 0; t < rows; ++t)
      targets.push_back(
          static_cast<std::int32_t>(d.once_in(masked) ? -1 : d.between(0, vocab - 1)));
    const auto how = d.one_of({Accumulate::overwrite, Accumulate::add});
    const auto after = d.one_of({Logits::keep, Logits::become_gradient});
    const auto at_z = some_margins(d);
    compare(fmt::format("{} rows of {}, amplitude {}", rows, vocab, amplitude), [=](Lab& lab) {
      const Placed z(lab, &Lab::values, {rows, vocab}, of_z, at_z);
      const View loss = lab.of_type(DType::f64, {1}, {how == Accumulate::add ? 1.5 : nan});
      lab.backend.put(queue, kernel::CrossEntropy{.loss = loss,
                                                  .how = how,
                                                  .logits_TV = z.here,
                                                  .target_T = lab.ids(targets),
                                                  .scale = scale,
                                                  .logits = after});
      const CrossEntropyErrors e(lab.tested, vocab, amplitude);
      lab.result("loss", loss, static_cast<double>(rows) * e.loss);
      z.result(lab, "logits", after == Logits::keep ? 0 : scale * 2 * e.relative);
    });
  });
}

}  // namespace
}  // namespace trireme::fuzzing
