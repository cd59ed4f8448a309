#pragma once
// The device kernels, put on a stream: operations of kernels/operations.hpp in f32 and bf16,
// copies and fills of f64, i32 and i64, too. Error for another type and too small a workspace.
// Arithmetic is in f32, but sums that the contract keeps in f64 are in f64. No sum depends on the
// order in which blocks run: partial sums are cut by size and added in order.
#include "kernels/operations.hpp"

namespace trireme::cuda {

using Stream = void*;  // a cudaStream_t

struct OnStream {
  Stream stream;
  View scratch;  // the lent workspace
};

void run(const kernel::Copy&, const OnStream&);
void run(const kernel::Fill&, const OnStream&);
void run(const kernel::Dequantize&, const OnStream&);
void run(const kernel::Norm&, const OnStream&);  // at most 8,192 wide
void run(const kernel::NormGrad&, const OnStream&);
void run(const kernel::Dropout&, const OnStream&);
void run(const kernel::ResidualNorm&, const OnStream&);
void run(const kernel::Rotary&, const OnStream&);
void run(const kernel::Activate&, const OnStream&);
void run(const kernel::ActivateGrad&, const OnStream&);
void run(const kernel::Scale&, const OnStream&);
void run(const kernel::Swiglu&, const OnStream&);
void run(const kernel::SwigluGrad&, const OnStream&);
void run(const kernel::Embedding&, const OnStream&);
void run(const kernel::EmbeddingGrad&, const OnStream&);
void run(const kernel::CrossEntropy&, const OnStream&);
void run(const kernel::ColumnSum&, const OnStream&);
void run(const kernel::Update&, const OnStream&);
void run(const kernel::SumSquares&, const OnStream&);
void run(const kernel::Digest&, const OnStream&);
void run(const kernel::Route&, const OnStream&);  // among at most 14,336 experts
void run(const kernel::RouteGrad&, const OnStream&);
void run(const kernel::RouterLosses&, const OnStream&);
void run(const kernel::CountChoices&, const OnStream&);
void run(const kernel::SortChoices&, const OnStream&);
void run(const kernel::SumRows&, const OnStream&);
void run(const kernel::SinkGrad&, const OnStream&);

// Attention for what cuDNN does not do. Error above a head dim of 256 or 65,535 samples x heads.
void attend(const kernel::Attention&, Stream);
void attend(const kernel::AttentionGrad&, Stream);
// What attention to this piece of keys alone gives, of which each query sees one, to its results or
// its state.
void join_piece(const kernel::Attention&, const ConstView& o_BTHD, const ConstView& lse_BHT,
                Stream);
// Makes attention without sinks that with them.
void join_sinks(const kernel::Attention&, Stream);

// sort.cu, for other kernels: order_T gets the numbers of the rows in the order of their ids, all
// below `limit`, and those of one id in their own. Returns the ids in that order, which lie in
// `memory` of bytes_to_sort, on 256 bytes.
std::size_t bytes_to_sort(std::int64_t rows);
const std::int32_t* sort_rows(Stream, const char* name, std::byte* memory, std::int32_t* order_T,
                              const std::int32_t* ids_T, std::int64_t rows, std::int64_t limit);

// reduce.cu, for other kernels' sums.
// a_C (+)= sum over `parts` rows of partial_2PC[0], b_C of partial_2PC[1], in order; either of a_C
// and b_C may be null.
void add_partials(Stream, float* a_C, float* b_C, Accumulate, const float* partial_2PC,
                  std::int64_t parts, std::int64_t width);
// out (+)= sum of x, in order
void sum_in_order(Stream, double* out, Accumulate, const double* x, std::int64_t n);

}  // namespace trireme::cuda
