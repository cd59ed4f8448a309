#pragma once
#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline Examples<kernel::ColumnSum> examples(Of<kernel::ColumnSum>) {
  Examples<kernel::ColumnSum> list;
  for (const auto how : both_ways)
    for (const std::int64_t T : {1, 5, 70})
      for (const std::int64_t C : {1, 7, 72})
        list.push_back(
            {std::to_string(T) + " rows of " + std::to_string(C) + way(how), [=](Operands& o) {
               return kernel::ColumnSum{
                   .out_C = o.wide_values({C}), .how = how, .x_TC = o.values({T, C})};
             }});
  return list;
}

// ShardBuffers that begin and end anywhere, side by side in the same arrays; the i-th has a copy or
// not.
struct ShardBuffers {
  const char* name;
  std::vector<bool> copies;
};
inline const ShardBuffers shards_examples[] = {{"one", {false}},
                                               {"one with a copy", {true}},
                                               {"three, two with copies", {true, false, true}},
                                               {"three, one with a copy", {false, true, false}}};
inline View shard_of(const View& all, std::size_t i) {
  return all.slice(0, static_cast<std::int64_t>(i) * 50 + 1, static_cast<std::int64_t>(41 + 2 * i));
}

inline Examples<kernel::Sgd> examples(Of<kernel::Sgd>) {
  Examples<kernel::Sgd> list;
  for (const auto& shards : shards_examples)
    list.push_back(
        {shards.name, [shards](Operands& o) {
           const View w = o.wide_values({150}), copy = o.values({150}), g = o.wide_values({150}, 3);
           kernel::Sgd sgd;
           for (std::size_t i = 0; i < shards.copies.size(); ++i)
             sgd.shards.push_back(
                 {.master_N = shard_of(w, i),
                  .copy_N = shards.copies[i] ? shard_of(copy, i) : View{},
                  .grad_N = shard_of(g, i),
                  .factors = {.lr = 0.1 * static_cast<double>(i + 1), .decay = 0.2, .scale = 0.5}});
           return sgd;
         }});
  return list;
}

inline Examples<kernel::AdamW> examples(Of<kernel::AdamW>) {
  Examples<kernel::AdamW> list;
  for (const auto& shards : shards_examples)
    list.push_back(
        {shards.name, [shards](Operands& o) {
           const View w = o.wide_values({150}), m = o.wide_values({150}), v = o.positive({150}),
                      copy = o.values({150}), g = o.wide_values({150}, 3);
           kernel::AdamW adamw;
           for (std::size_t i = 0; i < shards.copies.size(); ++i)
             adamw.shards.push_back({.master_N = shard_of(w, i),
                                     .m_N = shard_of(m, i),
                                     .v_N = shard_of(v, i),
                                     .copy_N = shards.copies[i] ? shard_of(copy, i) : View{},
                                     .grad_N = shard_of(g, i),
                                     .factors = {.lr = 0.1,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.95,
                                                 .eps = 1e-8,
                                                 .decay = 0.1,
                                                 .scale = 0.5,
                                                 .count = static_cast<std::int64_t>(i) * 10 + 1}});
           return adamw;
         }});
  return list;
}

inline Examples<kernel::SumSquares> examples(Of<kernel::SumSquares>) {
  return {{"one",
           [](Operands& o) {
             return kernel::SumSquares{.out_N = o.of_type(DType::f64, {1}), .x = {o.values({65})}};
           }},
          {"wide ones", [](Operands& o) {
             const View all = o.wide_values({150});
             return kernel::SumSquares{
                 .out_N = o.of_type(DType::f64, {3}),
                 .x = {shard_of(all, 2), shard_of(all, 0), all.slice(0, 50, 1)}};
           }}};
}

}  // namespace trireme
