#pragma once
#include "kernels/nf4.hpp"
#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline Examples<kernel::Copy> examples(Of<kernel::Copy>) {
  using O = kernel::Copy;
  Examples<O> list;
  for (const auto how : both_modes) {
    list.push_back({"dense" + mode(how), [how](Operands& o) {
                      return O{.dst = o.values({13}), .src = o.values({13}), .how = how};
                    }});
    list.push_back({"transposed into a part" + mode(how), [how](Operands& o) {
                      return O{.dst = o.values({9, 5}).slice(0, 1, 7),
                               .src = o.values({5, 8}).slice(1, 0, 7).transposed(),
                               .how = how};
                    }});
    list.push_back({"between rows" + mode(how), [how](Operands& o) {
                      return O{.dst = o.values({5, 9}).slice(1, 1, 7),
                               .src = o.values({5, 8}).slice(1, 0, 7),
                               .how = how};
                    }});
    list.push_back({"a row again and again" + mode(how), [how](Operands& o) {
                      View rows = o.values({3, 7});
                      rows.stride[0] = 0;
                      return O{.dst = o.values({3, 7}), .src = rows, .how = how};
                    }});
    list.push_back({"to the wide type" + mode(how), [how](Operands& o) {
                      return O{.dst = o.wide_values({3, 11}), .src = o.values({3, 11}), .how = how};
                    }});
    list.push_back({"of f64" + mode(how), [how](Operands& o) {
                      return O{.dst = o.of_type(DType::f64, {5}),
                               .src = o.of_type(DType::f64, {5}),
                               .how = how};
                    }});
  }
  list.push_back({"to bf16", [](Operands& o) {
                    return O{.dst = o.of_type(DType::bf16, {9}), .src = o.wide_values({9})};
                  }});
  list.push_back({"ids", [](Operands& o) {
                    return O{.dst = o.ids({0, 0, 0}), .src = o.ids({7, -1, 50000})};
                  }});
  list.push_back({"sample numbers", [](Operands& o) {
                    return O{.dst = o.numbers({0, 0}), .src = o.numbers({7, 1LL << 40})};
                  }});
  return list;
}

inline Examples<kernel::Fill> examples(Of<kernel::Fill>) {
  using O = kernel::Fill;
  return {
      {"dense", [](Operands& o) { return O{.dst = o.values({13}), .value = 0.1}; }},
      {"part",
       [](Operands& o) {
         return O{.dst = o.values({3, 9, 5}).slice(1, 1, 7), .value = -2};
       }},
      {"wide", [](Operands& o) { return O{.dst = o.wide_values({5}), .value = 3}; }},
      {"f64", [](Operands& o) { return O{.dst = o.of_type(DType::f64, {1}), .value = 0.1}; }},
      {"ids",
       [](Operands& o) {
         return O{.dst = o.ids({1, 2, 3}), .value = -1};
       }},
      {"sample numbers", [](Operands& o) { return O{.dst = o.numbers({4}), .value = 7}; }},
  };
}

// Codes and scales of any bits; rows of their own, and in records.
inline Examples<kernel::Dequantize> examples(Of<kernel::Dequantize>) {
  const auto words = [](Operands& o, std::int64_t rows, std::int64_t n) {
    std::vector<std::int32_t> w;
    for (std::int64_t i = 0; i < rows * n; ++i)
      w.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(i + 1) * 2654435761U));
    return o.ids(w).reshaped({rows, n});
  };
  const auto of_rows = [words](Operands& o) {
    return kernel::Dequantize{.y_N = o.values({2 * nf4::weights}),
                              .code_SW = words(o, 2, nf4::code_words),
                              .scale_SW = words(o, 2, nf4::scale_words),
                              .unit_S1 = o.of_type(DType::f32, {2, 1})};
  };
  const auto of_records = [words](Operands& o) {
    const View all = words(o, 3, nf4::record_words);
    return kernel::Dequantize{.y_N = o.values({3 * nf4::weights}),
                              .code_SW = all.slice(1, 0, nf4::code_words),
                              .scale_SW = all.slice(1, nf4::code_words, nf4::scale_words),
                              .unit_S1 = o.of_type(DType::f32, {3, 5}).slice(1, 2, 1)};
  };
  return {{"rows", of_rows}, {"records", of_records}};
}

}  // namespace trireme
