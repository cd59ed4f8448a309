#pragma once
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

}  // namespace trireme
