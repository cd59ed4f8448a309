#pragma once
#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline constexpr std::int64_t vocabulary = 11;
// One of them three times, both ends of the vocabulary, most of it not at all.
inline View some_ids(Operands& o) {
  return o.ids({3, 0, 10, 3, 6, 3, 9});
}

inline Examples<kernel::Embedding> examples(Of<kernel::Embedding>) {
  Examples<kernel::Embedding> list;
  for (const std::int64_t C : {1, 7, 72})
    list.push_back({"width " + std::to_string(C), [C](Operands& o) {
                      return kernel::Embedding{.y_TC = o.values({7, C}),
                                               .ids_T = some_ids(o),
                                               .table_VC = o.values({vocabulary, C})};
                    }});
  return list;
}

inline Examples<kernel::EmbeddingGrad> examples(Of<kernel::EmbeddingGrad>) {
  Examples<kernel::EmbeddingGrad> list;
  for (const auto how : both_modes)
    for (const std::int64_t C : {7, 130})
      list.push_back({"counts of width " + std::to_string(C) + mode(how),
                      [=](Operands& o) {
                        return kernel::EmbeddingGrad{.dtable_VC = counts(o, {vocabulary, C}),
                                                     .how = how,
                                                     .dy_TC = o.values({7, C}),
                                                     .ids_T = some_ids(o),
                                                     .largest = largest(o)};
                      },
                      true});
  for (const auto how : both_modes)
    for (const std::int64_t C : {1, 7, 72})
      list.push_back({"width " + std::to_string(C) + mode(how), [=](Operands& o) {
                        return kernel::EmbeddingGrad{.dtable_VC = o.wide_values({vocabulary, C}),
                                                     .how = how,
                                                     .dy_TC = o.values({7, C}),
                                                     .ids_T = some_ids(o)};
                      }});
  return list;
}

inline Examples<kernel::CrossEntropy> examples(Of<kernel::CrossEntropy>) {
  Examples<kernel::CrossEntropy> list;
  for (const auto how : both_modes)
    list.push_back({"counts" + mode(how),
                    [=](Operands& o) {
                      return kernel::CrossEntropy{.loss = counts(o, {1}),
                                                  .how = how,
                                                  .logits_TV = o.values({5, 72}, 3),
                                                  .target_T = o.ids({6, -1, 0, 3, -1}),
                                                  .largest = largest(o)};
                    },
                    true});
  for (const auto how : both_modes)
    for (const auto logits : {Logits::keep, Logits::become_gradient})
      for (const std::int64_t V : {7, 72, 257})
        list.push_back(
            {(logits == Logits::keep ? "loss" : "loss and gradient") + mode(how), [=](Operands& o) {
               return kernel::CrossEntropy{.loss = o.of_type(DType::f64, {1}),
                                           .how = how,
                                           .logits_TV = o.values({5, V}, 3),
                                           .target_T = o.ids({6, -1, 0, 3, -1}),
                                           .scale = 0.37,
                                           .logits = logits};
             }});
  for (const auto how : both_modes)
    list.push_back({"taught" + mode(how), [=](Operands& o) {
                      return kernel::CrossEntropy{.loss = o.of_type(DType::f64, {1}),
                                                  .how = how,
                                                  .logits_TV = o.values({5, 72}, 3),
                                                  .target_T = o.ids({6, -1, 0, 3, -1}),
                                                  .scale = 0.37,
                                                  .logits = Logits::become_gradient,
                                                  .teacher = {o.values({5, 72}, 3), 0, 2, 0.4}};
                    }});
  return list;
}

}  // namespace trireme
