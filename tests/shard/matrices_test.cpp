// The matrices of each parameter, compared with sizes counted by hand.
#include "lib/shard/matrices.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/support/message_of.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ParamId named(const ModelSpec& spec, const std::string& name) {
  const auto found = std::ranges::find(spec.params, name, &ParamSpec::name);
  require(found != spec.params.end(), "no parameter is called {}", name);
  return ParamId::at(static_cast<std::size_t>(found - spec.params.begin()));
}

// First row, rows and columns of each matrix of a parameter.
struct Rows {
  std::int64_t first, rows, columns;
  bool operator==(const Rows&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Rows& r) {
  return out << r.rows << "x" << r.columns << " from row " << r.first;
}
std::vector<Rows> rows_of(const ModelSpec& spec, const std::string& name,
                          HeadMatrices heads = HeadMatrices::together) {
  std::vector<Rows> all;
  for (const auto& m : matrices_of(spec, named(spec, name), heads)) {
    EXPECT_EQ(m.param, named(spec, name));
    EXPECT_EQ(m.first % m.columns, 0);
    all.push_back({m.first / m.columns, m.rows, m.columns});
  }
  return all;
}

// 3 heads of 4 channels, each with keys and values of its own.
TEST(Matrices, OfGpt2AreQueriesKeysAndValues) {
  const auto spec = make_spec(test::tiny_gpt2());

  EXPECT_THAT(rows_of(spec, "blocks.1.qkv.weight"),
              ElementsAre(Rows{0, 12, 12}, Rows{12, 12, 12}, Rows{24, 12, 12}));
  EXPECT_THAT(rows_of(spec, "blocks.1.projection.weight"), ElementsAre(Rows{0, 12, 12}));
  EXPECT_THAT(rows_of(spec, "blocks.0.ffn_in.weight"), ElementsAre(Rows{0, 48, 12}));
  EXPECT_THAT(rows_of(spec, "blocks.0.ffn_out.weight"), ElementsAre(Rows{0, 12, 48}));
}

// 6 heads of queries share 2 of keys and values; gate and up have 20 rows each.
TEST(Matrices, OfGroupedHeadsAndGatesHaveTheirOwnRows) {
  const auto spec = make_spec(test::tiny_llama());

  EXPECT_THAT(rows_of(spec, "blocks.0.qkv.weight"),
              ElementsAre(Rows{0, 24, 24}, Rows{24, 8, 24}, Rows{32, 8, 24}));
  EXPECT_THAT(rows_of(spec, "blocks.0.ffn_in.weight"),
              ElementsAre(Rows{0, 20, 24}, Rows{20, 20, 24}));
  EXPECT_THAT(rows_of(spec, "blocks.0.ffn_out.weight"), ElementsAre(Rows{0, 24, 20}));
}

// 36 + 12 + 12 rows, because heads are wider than their share of the model.
TEST(Matrices, OfWideHeadsFollowTheHeads) {
  const auto spec = make_spec(test::tiny_qwen());

  EXPECT_THAT(rows_of(spec, "blocks.0.qkv.weight"),
              ElementsAre(Rows{0, 36, 24}, Rows{36, 12, 24}, Rows{48, 12, 24}));
  EXPECT_THAT(rows_of(spec, "blocks.0.projection.weight"), ElementsAre(Rows{0, 24, 36}));
}

TEST(Matrices, OfEachHeadDivideQueriesKeysAndValuesAlone) {
  const auto spec = make_spec(test::tiny_qwen());

  std::vector<Rows> heads;
  for (std::int64_t head = 0; head < 6 + 2 + 2; ++head) heads.push_back({6 * head, 6, 24});
  EXPECT_EQ(rows_of(spec, "blocks.1.qkv.weight", HeadMatrices::each), heads);
  for (const char* name :
       {"blocks.1.projection.weight", "blocks.1.ffn_in.weight", "blocks.1.ffn_out.weight"})
    EXPECT_EQ(rows_of(spec, name, HeadMatrices::each), rows_of(spec, name)) << name;
}

TEST(Matrices, OfExpertsAreThoseOfEachExpert) {
  const auto spec = make_spec(test::tiny_mixture());

  for (const int expert : {0, 4}) {
    const auto name = fmt::format("blocks.1.experts.{}.", expert);
    EXPECT_THAT(rows_of(spec, name + "ffn_in.weight"), ElementsAre(Rows{0, 9, 24}, Rows{9, 9, 24}));
    EXPECT_THAT(rows_of(spec, name + "ffn_out.weight"), ElementsAre(Rows{0, 24, 9}));
  }
  EXPECT_THAT(rows_of(spec, "blocks.1.shared_expert.ffn_in.weight"),
              ElementsAre(Rows{0, 11, 24}, Rows{11, 11, 24}));
}

// `a` has rows of each product one after another, `b` the channels of each.
TEST(Matrices, OfAdaptersAreThoseOfEachProduct) {
  const auto all = make_spec(test::tiny_llama(), {.rank = 3});
  EXPECT_THAT(rows_of(all, "blocks.0.qkv.lora_a"),
              ElementsAre(Rows{0, 3, 24}, Rows{3, 3, 24}, Rows{6, 3, 24}));
  EXPECT_THAT(rows_of(all, "blocks.0.qkv.lora_b"),
              ElementsAre(Rows{0, 24, 3}, Rows{24, 8, 3}, Rows{32, 8, 3}));
  EXPECT_THAT(rows_of(all, "blocks.0.ffn_in.lora_a"), ElementsAre(Rows{0, 3, 24}, Rows{3, 3, 24}));
  EXPECT_THAT(rows_of(all, "blocks.0.ffn_in.lora_b"), ElementsAre(Rows{0, 20, 3}, Rows{20, 20, 3}));
  EXPECT_THAT(rows_of(all, "blocks.0.projection.lora_a"), ElementsAre(Rows{0, 3, 24}));

  const auto some = make_spec(test::tiny_llama(), {.rank = 2, .patterns = {"*.v", "*.up", "*.q"}});
  EXPECT_THAT(rows_of(some, "blocks.0.qkv.lora_a"), ElementsAre(Rows{0, 2, 24}, Rows{2, 2, 24}));
  EXPECT_THAT(rows_of(some, "blocks.0.qkv.lora_b"), ElementsAre(Rows{0, 24, 2}, Rows{24, 8, 2}));
  EXPECT_THAT(rows_of(some, "blocks.0.ffn_in.lora_b"), ElementsAre(Rows{0, 20, 2}));
}

// GPT-2's adapters have one product of all of q, k and v.
TEST(Matrices, OfAdaptersStayWholeWhereTheirProductIs) {
  const auto spec = make_spec(test::tiny_gpt2(), {.rank = 2});
  for (const auto heads : {HeadMatrices::together, HeadMatrices::each}) {
    EXPECT_THAT(rows_of(spec, "blocks.0.qkv.lora_a", heads), ElementsAre(Rows{0, 2, 12}));
    EXPECT_THAT(rows_of(spec, "blocks.0.qkv.lora_b", heads), ElementsAre(Rows{0, 36, 2}));
  }
}

TEST(Matrices, OfExpertsAdaptersAreThoseOfEachExpert) {
  const auto spec = make_spec(test::tiny_mixture(), {.rank = 2, .patterns = {"*.experts.*"}});
  EXPECT_THAT(rows_of(spec, "blocks.2.experts.3.ffn_in.lora_a"),
              ElementsAre(Rows{0, 2, 24}, Rows{2, 2, 24}));
  EXPECT_THAT(rows_of(spec, "blocks.2.experts.3.ffn_in.lora_b"),
              ElementsAre(Rows{0, 9, 2}, Rows{9, 9, 2}));
}

// Every element of every weight, whatever the model.
TEST(Matrices, CoverEachWeightOnce) {
  std::vector<ModelConfig> models{test::tiny_gpt2(), test::tiny_llama(), test::tiny_qwen(),
                                  test::tiny_mixture(), test::tiny_gpt_oss()};
  for (const auto& model : models)
    for (const std::int64_t rank : {0, 3})
      for (const auto heads : {HeadMatrices::together, HeadMatrices::each}) {
        const auto spec = make_spec(model, {.rank = rank});
        for (std::size_t i = 0; i < spec.params.size(); ++i) {
          const auto& p = spec.params[i];
          if (p.shape.dims() != 2) continue;
          std::vector<int> seen(static_cast<std::size_t>(p.shape.count()));
          for (const auto& m : matrices_of(spec, ParamId::at(i), heads)) {
            EXPECT_EQ(m.columns, p.shape[1]) << p.name;
            EXPECT_EQ(m.count(), m.rows * m.columns);
            for (auto e = m.first; e < m.first + m.rows * m.columns; ++e)
              ++seen.at(static_cast<std::size_t>(e));
          }
          EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << p.name;
        }
      }
}

std::set<std::string> chosen(const ModelSpec& spec, const std::vector<std::string>& patterns = {}) {
  std::set<std::string> names;
  const auto whole = updated_as_matrices(spec, patterns);
  EXPECT_EQ(whole.size(), spec.params.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (whole[i]) names.insert(spec.params[i].name);
  return names;
}

// Names that end in one of these.
std::set<std::string> ending(const ModelSpec& spec, const std::vector<std::string>& ends) {
  std::set<std::string> names;
  for (const auto& p : spec.params)
    if (std::ranges::any_of(ends, [&](const auto& end) { return p.name.ends_with(end); }))
      names.insert(p.name);
  return names;
}

const std::vector<std::string> linear{".qkv.weight", ".projection.weight", ".ffn_in.weight",
                                      ".ffn_out.weight"};

// Not tables, positions, heads, routers, gates of shared experts, norms, sinks or biases.
TEST(Matrices, AreUsuallyLinearLayersInBlocks) {
  for (const auto& model :
       {test::tiny_gpt2(), test::tiny_llama(), test::tiny_qwen(), test::tiny_gemma2(),
        test::tiny_mixture(), test::tiny_sigmoid_mixture(), test::tiny_gpt_oss()}) {
    const auto spec = make_spec(model);
    EXPECT_EQ(chosen(spec), ending(spec, linear));
    EXPECT_GT(chosen(spec).size(), 7U);
  }
}

// Those of an embedding and a head, too, but not DoRA's norms. The base model is not trained, but
// for what is trained beside the adapters.
TEST(Matrices, AreBothFactorsOfAdapters) {
  const auto untied = make_spec(test::tiny_llama(), {.rank = 2,
                                                     .patterns = {"*.qkv.*", "embedding", "head"},
                                                     .also_train = {"blocks.1.ffn_out"}});
  auto expected = ending(untied, {".lora_a", ".lora_b"});
  EXPECT_TRUE(expected.contains("head.lora_b"));
  expected.insert("blocks.1.ffn_out.weight");
  EXPECT_EQ(chosen(untied), expected);

  const auto dora = make_spec(test::tiny_llama(), {.rank = 2, .method = AdapterMethod::dora});
  EXPECT_EQ(chosen(dora), ending(dora, {".lora_a", ".lora_b"}));
}

// A pattern names all exceptions: what is left out by default is then a matrix like others.
TEST(Matrices, ExceptThoseOfPatterns) {
  const auto spec = make_spec(test::tiny_mixture());
  auto all = ending(spec, linear);
  for (const auto& name :
       ending(spec, {".router.weight", ".shared_expert.gate.weight", "embedding.weight"}))
    all.insert(name);
  EXPECT_EQ(chosen(spec, {"head.weight"}), all);

  std::erase_if(all, [](const auto& name) { return name.find(".experts.") != std::string::npos; });
  all.erase("blocks.2.qkv.weight");
  EXPECT_EQ(chosen(spec, {"head.*", "*.experts.*", "blocks.2.qkv.weigh?"}), all);
}

TEST(Matrices, ErrorsNameThePatternThatMatchesNone) {
  const auto spec = make_spec(test::tiny_llama(), {.rank = 2});
  const auto said = [&](const char* pattern) {
    return message_of([&] {
      const std::vector<std::string> patterns{"blocks.0.qkv.lora_a", pattern};
      updated_as_matrices(spec, patterns);
    });
  };
  EXPECT_EQ(said("*.lora_b"), "");
  EXPECT_THAT(said("blocks.7.*"), HasSubstr("\"blocks.7.*\" matches no matrix"));
  EXPECT_THAT(said("*norm*"), HasSubstr("\"*norm*\" matches no matrix"));
  EXPECT_THAT(said("head.weight"),
              HasSubstr("\"head.weight\" matches no matrix that is trained; names look like "
                        "\"blocks.0.qkv.lora_a\""));
}

TEST(Matrices, HaveSquareArraysOfTheirSides) {
  const SquareArray left{"left", MatrixSide::rows}, right{"right", MatrixSide::columns};
  const Matrix q{{}, 0, 24, 10}, k{{}, 240, 8, 10}, v{{}, 320, 8, 10};
  EXPECT_EQ(count_of(left, q), 24 * 24);
  EXPECT_EQ(count_of(left, k), 8 * 8);
  EXPECT_EQ(count_of(right, k), 10 * 10);

  const std::vector<Matrix> one{q}, alike{k, v}, unlike{q, k, v};
  EXPECT_EQ(shape_of(left, one), (Shape{24, 24}));
  EXPECT_EQ(shape_of(right, one), (Shape{10, 10}));
  EXPECT_EQ(shape_of(left, alike), (Shape{2, 8, 8}));
  EXPECT_EQ(shape_of(right, alike), (Shape{2, 10, 10}));
  EXPECT_EQ(shape_of(left, unlike), (Shape{24 * 24 + 2 * 8 * 8}));
  EXPECT_EQ(shape_of(right, unlike), (Shape{3, 10, 10}));
}

}  // namespace
}  // namespace trireme
