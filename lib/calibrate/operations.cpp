// Seconds of the operations that move memory, by the number of bytes that they move. The sizes
// range from those that fit into a cache to those that do not.
#include <functional>

#include "kernels/nf4.hpp"
#include "lib/calibrate/calibrate.hpp"
#include "lib/calibrate/operands.hpp"
#include "lib/predict/workloads.hpp"

namespace trireme {
namespace {

// Matrices of T rows with the width C of a model.
struct Rows {
  std::int64_t T, C;
};
constexpr Rows row_sizes[] = {{32, 96}, {128, 192}, {256, 768}, {1024, 768}, {2048, 3072}};
constexpr std::int64_t flat_sizes[] = {4096, 1 << 16, 1 << 20, 1 << 23, 1 << 25};
constexpr Rows loss_sizes[] = {{64, 256}, {256, 4096}, {256, 50304}};
constexpr Rows router_sizes[] = {{64, 8}, {512, 8}, {512, 64}, {4096, 64}, {4096, 256}};

using Make = std::function<kernel::Operation(SampleOperands&, Rows)>;

class Table {
 public:
  Table(Backend& b, const Stopwatch& w, DType t) : backend_(b), watch_(w), dtype_(t) {}

  void add(std::span<const Rows> sizes, const Make& make) {
    OperationSeconds all;
    all.dtype = dtype_;
    for (const auto& size : sizes) {
      all.bytes.push_back(0);
      all.seconds.push_back(seconds_of_calls(backend_, watch_, [&](SampleOperands& memory) {
        auto operation = make(memory, size);
        const auto workload = workloads_of(operation, EpilogueTime::fused).front();
        all.name = workload.name;
        all.bytes.back() = workload.bytes;
        return operation;
      }));
    }
    table.push_back(std::move(all));
  }

  std::vector<OperationSeconds> table;

 private:
  Backend& backend_;
  const Stopwatch& watch_;
  DType dtype_;
};

View flat(const View& v) {
  return v.reshaped({v.count()});
}

void add_rows(Table& table, DType t) {
  using O = SampleOperands&;
  const DType s = wide(t);
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::Norm{.y_TC = m.take(t, {r.T, r.C}),
                        .mean_T = m.take(s, {r.T}),
                        .rstd_T = m.take(s, {r.T}),
                        .x_TC = m.take(t, {r.T, r.C}),
                        .w_C = m.take(t, {r.C}),
                        .b_C = m.take(t, {r.C}),
                        .eps = 1e-5};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::NormGrad{.dx_TC = m.take(t, {r.T, r.C}),
                            .dw_C = m.take(s, {r.C}),
                            .db_C = m.take(s, {r.C}),
                            .dsum_TC = m.take(t, {r.T, r.C}),
                            .dy_TC = m.take(t, {r.T, r.C}),
                            .x_TC = m.take(t, {r.T, r.C}),
                            .w_C = m.take(t, {r.C}),
                            .mean_T = m.take(s, {r.T}),
                            .rstd_T = m.take(s, {r.T})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::ResidualNorm{.sum_BTC = m.take(t, {1, r.T, r.C}),
                                .y_BTC = m.take(t, {1, r.T, r.C}),
                                .mean_T = m.take(s, {r.T}),
                                .rstd_T = m.take(s, {r.T}),
                                .x_BTC = m.take(t, {1, r.T, r.C}),
                                .skip_BTC = m.take(t, {1, r.T, r.C}),
                                .w_C = m.take(t, {r.C}),
                                .b_C = m.take(t, {r.C}),
                                .eps = 1e-5};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::Dropout{.y_BTC = m.take(t, {1, r.T, r.C}),
                           .x_BTC = m.take(t, {1, r.T, r.C}),
                           .skip_BTC = m.take(t, {1, r.T, r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    constexpr std::int64_t D = 32;
    return kernel::Rotary{.x_BTHD = m.take(t, {1, r.T, r.C / D, D}),
                          .table_T2E = m.take(s, {r.T, 2, D / 2})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::Swiglu{.y_TF = m.take(t, {r.T, r.C}), .gate_up_T2F = m.take(t, {r.T, 2, r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::SwigluGrad{.dgate_up_T2F = m.take(t, {r.T, 2, r.C}),
                              .dy_TF = m.take(t, {r.T, r.C}),
                              .gate_up_T2F = m.take(t, {r.T, 2, r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    constexpr std::int64_t D = 32;
    const std::int64_t H = r.C / D;
    return kernel::SinkGrad{.dsink_H = m.take(s, {H}),
                            .do_BTHD = m.take(t, {1, r.T, H, D}),
                            .o_BTHD = m.take(t, {1, r.T, H, D}),
                            .lse_BHT = m.take(s, {1, H, r.T}),
                            .sink_H = m.take(t, {H})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    constexpr auto scales = fp8::Scales::rows;
    return kernel::RoundToFp8{.y = {m.take(DType::i32, fp8::code_shape(r.T, r.C)),
                                    m.take(DType::f32, fp8::scale_shape(scales, r.T, r.C)), scales},
                              .x_RK = m.take(t, {r.T, r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::RowNorms{.norm_N = m.take(s, {r.T}), .x_NC = m.take(t, {r.T, r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::ScaleColumns{.y_TN = m.take(t, {r.T, r.C}),
                                .x_TN = m.take(t, {r.T, r.C}),
                                .factor_N = m.take(s, {r.C}),
                                .divisor_N = m.take(s, {r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::ColumnSum{.out_C = m.take(s, {r.C}), .x_TC = m.take(t, {r.T, r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::Embedding{.y_TC = m.take(t, {r.T, r.C}),
                             .ids_T = m.take(DType::i32, {r.T}),
                             .table_VC = m.take(t, {16 * r.C, r.C})};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::EmbeddingGrad{.dtable_VC = m.take(s, {16 * r.C, r.C}),
                                 .how = Accumulate::add,
                                 .dy_TC = m.take(t, {r.T, r.C}),
                                 .ids_T = m.take(DType::i32, {r.T})};
  });
}

void add_losses(Table& table, DType t) {
  for (const auto logits : {Logits::keep, Logits::become_gradient})
    table.add(loss_sizes, [=](SampleOperands& m, Rows r) {
      return kernel::CrossEntropy{.loss = m.take(DType::f64, {1}),
                                  .logits_TV = m.take(t, {r.T, r.C}),
                                  .target_T = m.take(DType::i32, {r.T}),
                                  .logits = logits};
    });
}

// Adds the operations of routers with C experts, of which each token chooses two.
void add_routers(Table& table, DType t) {
  using O = SampleOperands&;
  const DType s = wide(t);
  table.add(router_sizes, [=](O m, Rows r) {
    return kernel::Route{.weight_TK = m.take(s, {r.T, 2}),
                         .choice_TK = m.take(DType::i32, {r.T, 2}),
                         .logits_TE = m.take(s, {r.T, r.C}),
                         .normalize = true};
  });
  table.add(router_sizes, [=](O m, Rows r) {
    return kernel::RouteGrad{.dlogits_TE = m.take(t, {r.T, r.C}),
                             .dweight_TK = m.take(s, {r.T, 2}),
                             .choice_TK = m.numbers({r.T, 2}, r.C),
                             .logits_TE = m.take(s, {r.T, r.C}),
                             .count_BE = m.take(DType::i64, {1, r.C}),
                             .normalize = true,
                             .balance_scale = 1,
                             .z_scale = 1};
  });
  table.add(router_sizes, [=](O m, Rows r) {
    return kernel::RouterLosses{.sums = m.take(DType::f64, {2}),
                                .logits_TE = m.take(s, {r.T, r.C}),
                                .count_BE = m.take(DType::i64, {1, r.C})};
  });
  table.add(router_sizes, [=](O m, Rows r) {
    return kernel::CountChoices{.count_BE = m.take(DType::i64, {1, r.C}),
                                .choice_TK = m.numbers({r.T, 2}, r.C)};
  });
  table.add(router_sizes, [=](O m, Rows r) {
    return kernel::SortChoices{.offset_E1 = m.take(DType::i32, {r.C + 1}),
                               .token_R = m.take(DType::i32, {2 * r.T}),
                               .choice_R = m.take(DType::i32, {2 * r.T}),
                               .row_TK = m.take(DType::i32, {r.T, 2}),
                               .choice_TK = m.numbers({r.T, 2}, r.C)};
  });
  table.add(row_sizes, [=](O m, Rows r) {
    return kernel::SumRows{.y_TC = m.take(t, {r.T, r.C}),
                           .x_RC = m.take(t, {2 * r.T, r.C}),
                           .row_TK = m.numbers({r.T, 2}, 2 * r.T)};
  });
}

void add_flat(Table& table, DType t) {
  using O = SampleOperands&;
  const DType s = wide(t);
  std::vector<Rows> sizes;
  for (const auto n : flat_sizes) sizes.push_back({n, 1});
  for (const auto how : {Accumulate::overwrite, Accumulate::add})
    table.add(sizes, [=](O m, Rows r) {
      return kernel::Copy{.dst = m.take(t, {r.T}), .src = m.take(t, {r.T}), .how = how};
    });
  table.add(sizes, [=](O m, Rows r) { return kernel::Fill{.dst = m.take(t, {r.T})}; });
  table.add(sizes, [=](O m, Rows r) {
    const auto records = std::max<std::int64_t>(1, r.T / nf4::weights);
    return kernel::Dequantize{.y_N = m.take(t, {records * nf4::weights}),
                              .code_SW = m.numbers({records, nf4::code_words}, 1 << 30),
                              .scale_SW = m.numbers({records, nf4::scale_words}, 1 << 30),
                              .unit_S1 = m.take(DType::f32, {records, 1})};
  });
  // Weights of a matrix of 4,096 columns.
  constexpr std::int64_t K = 4096;
  const auto tiles = [](Rows r) {
    return Shape{fp8::bands_of(0, r.T, K).count(), fp8::scale_shape(fp8::Scales::tiles, 1, K)[1]};
  };
  table.add(sizes, [=](O m, Rows r) {
    return kernel::LargestOfTiles{
        .largest_IG = m.take(DType::i32, tiles(r)), .x_N = m.take(t, {r.T}), .columns = K};
  });
  table.add(sizes, [=](O m, Rows r) {
    return kernel::ScalesOfTiles{.scale_T = m.take(DType::f32, {r.T}),
                                 .largest_RW = m.numbers({1, r.T}, 1 << 30),
                                 .first_R = m.numbers({1}, 1)};
  });
  table.add(sizes, [=](O m, Rows r) {
    return kernel::EncodeTiles{.code_W = m.take(DType::i32, {fp8::words_of(r.T)}),
                               .x_N = m.take(t, {r.T}),
                               .scale_IG = m.take(DType::f32, tiles(r)),
                               .columns = K};
  });
  table.add(sizes, [=](O m, Rows r) {
    return kernel::DecodeTiles{.y_N = m.take(t, {r.T}),
                               .code_W = m.numbers({fp8::words_of(r.T)}, 1 << 30),
                               .scale_IG = m.take(DType::f32, tiles(r)),
                               .columns = K};
  });
  table.add(sizes, [=](O m, Rows r) {
    return kernel::Activate{
        .activation = Activation::gelu, .y_N = m.take(t, {r.T}), .x_N = m.take(t, {r.T})};
  });
  table.add(sizes, [=](O m, Rows r) {
    const View dy = m.take(t, {r.T});
    return kernel::ActivateGrad{
        .activation = Activation::gelu, .dx_N = dy, .dy_N = dy, .x_N = m.take(t, {r.T})};
  });
  table.add(sizes, [=](O m, Rows r) { return kernel::Scale{.x_N = m.take(t, {r.T})}; });
  table.add(sizes, [=](O m, Rows r) {
    kernel::Update u{.rule = rule::AdamW{}, .shards = {}};
    u.shards.push_back({.master_N = flat(m.take(s, {r.T})),
                        .copy_N = s == t ? View{} : m.take(t, {r.T}),
                        .grad_N = m.take(s, {r.T}),
                        .state_N = {m.take(s, {r.T}), m.take(s, {r.T})},
                        .factors = {.lr = 1e-6}});
    return u;
  });
  table.add(sizes, [=](O m, Rows r) {
    kernel::Average a{.share = 1e-3, .shards = {}};
    a.shards.push_back({.average_N = flat(m.take(s, {r.T})), .x_N = m.take(s, {r.T})});
    return a;
  });
  table.add(sizes, [=](O m, Rows r) {
    return kernel::SumSquares{.out_N = m.take(DType::f64, {1}), .x = {m.take(s, {r.T})}};
  });
}

}  // namespace

std::vector<OperationSeconds> operation_seconds(Backend& b, const Stopwatch& watch, DType t) {
  Table table(b, watch, t);
  add_rows(table, t);
  add_losses(table, t);
  add_routers(table, t);
  add_flat(table, t);
  return std::move(table.table);
}

}  // namespace trireme
