#pragma once
// Launch functions of the device kernels: operations of kernels/operations.hpp in f32 and bf16, put
// on a stream. Copies and fills also accept f64, i32 and i64. The functions throw Error for other
// types or if the workspace is too small. Arithmetic is in f32, except sums that
// kernels/operations.hpp defines as f64. Sums do not depend on the order in which thread blocks
// run, because the division into partial sums depends only on sizes and partial sums are added in
// order.
#include "kernels/operations.hpp"

namespace trireme::cuda {

using Stream = void*;  // a cudaStream_t

// Stream and scratch memory of a kernel.
struct OnStream {
  Stream stream;
  View scratch;  // the lent workspace
};

void run(const kernel::Copy&, const OnStream&);
void run(const kernel::Fill&, const OnStream&);
void run(const kernel::Dequantize&, const OnStream&);
void run(const kernel::Norm&, const OnStream&);  // at most 8,192 channels
void run(const kernel::NormGrad&, const OnStream&);
void run(const kernel::Dropout&, const OnStream&);
void run(const kernel::ResidualNorm&, const OnStream&);
void run(const kernel::Rotary&, const OnStream&);
void run(const kernel::Activate&, const OnStream&);
void run(const kernel::ActivateGrad&, const OnStream&);
void run(const kernel::Scale&, const OnStream&);
void run(const kernel::RowNorms&, const OnStream&);
void run(const kernel::ScaleColumns&, const OnStream&);
void run(const kernel::Swiglu&, const OnStream&);
void run(const kernel::SwigluGrad&, const OnStream&);
void run(const kernel::Embedding&, const OnStream&);
void run(const kernel::EmbeddingGrad&, const OnStream&);
void run(const kernel::CrossEntropy&, const OnStream&);
void run(const kernel::ColumnSum&, const OnStream&);
void run(const kernel::Update&, const OnStream&);
void run(const kernel::Average&, const OnStream&);
void run(const kernel::SumSquares&, const OnStream&);
void run(const kernel::Digest&, const OnStream&);
void run(const kernel::Route&, const OnStream&);  // at most 14,336 experts
void run(const kernel::RouteGrad&, const OnStream&);
void run(const kernel::RouterLosses&, const OnStream&);
void run(const kernel::CountChoices&, const OnStream&);
void run(const kernel::SortChoices&, const OnStream&);
void run(const kernel::SumRows&, const OnStream&);
void run(const kernel::GroupedBias&, const OnStream&);
void run(const kernel::GroupedBiasGrad&, const OnStream&);
void run(const kernel::RoundToFp8&, const OnStream&);
void run(const kernel::LargestOfTiles&, const OnStream&);
void run(const kernel::ScalesOfTiles&, const OnStream&);
void run(const kernel::EncodeTiles&, const OnStream&);
void run(const kernel::DecodeTiles&, const OnStream&);
void run(const kernel::SinkGrad&, const OnStream&);
void run(const kernel::CachedAttention&, const OnStream&);  // head dims up to 256

// Compute products with SumOrder::by_row. A product's epilogue may only have a bias. The expert
// product does not wait for the row offsets.
void multiply_by_row(const kernel::Matmul&, Stream);
void multiply_by_row(const kernel::GroupedMatmul&, Stream);

// Computes attention for calls that cuDNN does not support. Throws Error if the head dim exceeds
// 256 or if samples x heads exceeds 65,535.
void attend(const kernel::Attention&, Stream);
void attend(const kernel::AttentionGrad&, Stream);
// Compute attention on tensor cores, in bf16, if the head dim is a multiple of 8 up to 128 and rows
// are aligned to 16 bytes. Otherwise the functions do nothing and return false. The backward pass
// reads the product do.o of each query from its workspace, where the caller must have stored it.
bool attend_with_mma(const kernel::Attention&, Stream);
bool attend_with_mma(const kernel::AttentionGrad&, Stream);
// Joins attention to one piece of keys with the results of earlier pieces. o and lse are the result
// for this piece alone, in which each query must attend to at least one key. The function writes
// the joined result to the state or, with the last piece, to the operation's results.
void join_piece(const kernel::Attention&, const ConstView& o_BTHD, const ConstView& lse_BHT,
                Stream);
// Adds the attention sinks to the results o and lse of a call that was computed without sinks.
void join_sinks(const kernel::Attention&, Stream);

// Sorts row numbers by id (sort.cu). `order_T` receives the row numbers in ascending order of their
// ids. Rows with equal ids stay in row order. All ids must be below `limit`. Returns the sorted
// ids, which are stored in `memory`. `memory` must be aligned to 256 bytes and have
// bytes_to_sort(rows) bytes.
std::size_t bytes_to_sort(std::int64_t rows);
const std::int32_t* sort_rows(Stream, const char* name, std::byte* memory, std::int32_t* order_T,
                              const std::int32_t* ids_T, std::int64_t rows, std::int64_t limit);

// Adds partial sums in order (reduce.cu): a_C = the sum of partial_2PC[0] over `parts` rows, and
// b_C = the sum of partial_2PC[1]. With Accumulate::add, the sums are added to a_C and b_C. Either
// pointer may be null.
void add_partials(Stream, float* a_C, float* b_C, Accumulate, const float* partial_2PC,
                  std::int64_t parts, std::int64_t width);
// Computes the sum of x in an order that depends only on n. Stores the sum in `out`, or adds it to
// `out`.
void sum_in_order(Stream, double* out, Accumulate, const double* x, std::int64_t n);

}  // namespace trireme::cuda
