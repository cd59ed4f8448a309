#pragma once
#include "tests/kernels/examples/example.hpp"

namespace trireme {

inline Examples<kernel::AddFixed> examples(Of<kernel::AddFixed>) {
  Examples<kernel::AddFixed> list;
  for (const auto how : both_modes)
    for (const bool compared : {false, true})
      for (const std::int64_t n : {1, 70, 40000})
        list.push_back({std::to_string(n) + (compared ? " compared" : "") + mode(how),
                        [=](Operands& o) {
                          return kernel::AddFixed{.sum_N = counts(o, {n}),
                                                  .how = how,
                                                  .x_N = o.of_type(DType::f32, {n}, 0.25),
                                                  .largest = compared ? largest(o) : View{}};
                        },
                        true});
  return list;
}

inline Examples<kernel::ReadFixed> examples(Of<kernel::ReadFixed>) {
  Examples<kernel::ReadFixed> list;
  for (const std::int64_t D : {1, 20})
    list.push_back(
        {std::to_string(D),
         [D](Operands& o) {
           const Shape s{2, 3, 4, D};
           return kernel::ReadFixed{
               .y_BTHD = o.values(s), .sum_BTHD = counts(o, s), .largest = largest(o), .shift = 3};
         },
         true});
  return list;
}

inline Examples<kernel::ColumnSum> examples(Of<kernel::ColumnSum>) {
  Examples<kernel::ColumnSum> list;
  for (const auto how : both_modes)
    for (const std::int64_t C : {1, 7, 600})
      list.push_back({"counts of " + std::to_string(C) + mode(how),
                      [=](Operands& o) {
                        return kernel::ColumnSum{.out_C = counts(o, {C}),
                                                 .how = how,
                                                 .x_TC = o.values({5, C}),
                                                 .largest = largest(o)};
                      },
                      true});
  for (const auto how : both_modes)
    for (const std::int64_t T : {1, 5, 70})
      for (const std::int64_t C : {1, 7, 72})
        list.push_back(
            {std::to_string(T) + " rows of " + std::to_string(C) + mode(how), [=](Operands& o) {
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

// One of each kind, with numbers that a run could have.
inline const UpdateRule every_update_rule[] = {
    rule::Sgd{}, rule::Momentum{.momentum = 0.9, .nesterov = false},
    rule::Momentum{.momentum = 0.9, .nesterov = true}, rule::AdamW{}, rule::Lion{}};
static_assert(std::variant_size_v<UpdateRule> == 4, "every rule is listed above");

inline Examples<kernel::Update> examples(Of<kernel::Update>) {
  Examples<kernel::Update> list;
  for (const auto& rule : every_update_rule)
    for (const auto& shards : shards_examples)
      list.push_back(
          {std::string(std::visit([](const auto& r) { return r.name; }, rule)) + ", " + shards.name,
           [rule, shards](Operands& o) {
             const View w = o.wide_values({150}), copy = o.values({150}),
                        g = o.wide_values({150}, 3);
             std::vector<View> state;
             for (std::size_t k = 0; k < arrays_of(rule).size(); ++k)
               state.push_back(k == 0 ? o.wide_values({150}) : o.positive({150}));
             kernel::Update update{.rule = rule, .shards = {}};
             for (std::size_t i = 0; i < shards.copies.size(); ++i) {
               auto& s = update.shards.emplace_back(kernel::Update::Shard{
                   .master_N = shard_of(w, i),
                   .copy_N = shards.copies[i] ? shard_of(copy, i) : View{},
                   .grad_N = shard_of(g, i),
                   .factors = {.lr = 0.1 * static_cast<double>(i + 1),
                               .decay = 0.2,
                               .scale = 0.5,
                               .count = static_cast<std::int64_t>(i) * 10 + 1}});
               for (const View& array : state) s.state_N.push_back(shard_of(array, i));
             }
             return update;
           }});
  return list;
}

inline Examples<kernel::Average> examples(Of<kernel::Average>) {
  Examples<kernel::Average> list;
  for (const std::size_t shards : {1, 3})
    list.push_back({std::to_string(shards) + " shards", [=](Operands& o) {
                      const View average = o.wide_values({150}), x = o.wide_values({150}, 3);
                      kernel::Average all{.share = 0.3, .shards = {}};
                      for (std::size_t i = 0; i < shards; ++i)
                        all.shards.push_back({shard_of(average, i), shard_of(x, i)});
                      return all;
                    }});
  return list;
}

inline Examples<kernel::SumSquares> examples(Of<kernel::SumSquares>) {
  return {{"counts",
           [](Operands& o) {
             const View all = counts(o, {40000});
             return kernel::SumSquares{.out_N = o.of_type(DType::f64, {8}),
                                       .x = {shard_of(all, 2), all.slice(0, 100, 39000)}};
           },
           true},
          {"one",
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

// Of arrays that end within a block, within a word, and of a part behind the first block.
inline Examples<kernel::Digest> examples(Of<kernel::Digest>) {
  return {{"three types",
           [](Operands& o) {
             return kernel::Digest{.out_N = o.of_type(DType::i64, {3}),
                                   .parts = {{.x = o.of_type(DType::f32, {150})},
                                             {.x = o.of_type(DType::bf16, {77})},
                                             {.x = o.of_type(DType::i64, {9})}}};
           }},
          {"a part of a long one", [](Operands& o) {
             const View all = o.of_type(DType::f32, {70000});
             return kernel::Digest{
                 .out_N = o.of_type(DType::i64, {2}),
                 .parts = {{.x = all.slice(0, 64, 69000), .first = 64}, {.x = o.ids({1, 2, 3})}}};
           }}};
}

}  // namespace trireme
