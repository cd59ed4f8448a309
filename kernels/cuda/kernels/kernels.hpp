#pragma once
// The device kernels, put on a stream: operations of kernels/operations.hpp in f32 and bf16. Copies
// and fills also accept f64, i32 and i64. The functions throw Error for other types or if the
// workspace is too small. Arithmetic is in f32, except sums that kernels/operations.hpp defines as
// f64. No sum depends on the order in which blocks run: partial sums are divided by size and added
// in order.
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
void run(const kernel::Swiglu&, const OnStream&);
void run(const kernel::SwigluGrad&, const OnStream&);
void run(const kernel::Embedding&, const OnStream&);
void run(const kernel::EmbeddingGrad&, const OnStream&);
void run(const kernel::CrossEntropy&, const OnStream&);
void run(const kernel::ColumnSum&, const OnStream&);
void run(const kernel::Update&, const OnStream&);
void run(const kernel::SumSquares&, const OnStream&);
void run(const kernel::Digest&, const OnStream&);
void run(const kernel::Route&, const OnStream&);  // at most 14,336 experts
void run(const kernel::RouteGrad&, const OnStream&);
void run(const kernel::RouterLosses&, const OnStream&);
void run(const kernel::CountChoices&, const OnStream&);
void run(const kernel::SortChoices&, const OnStream&);
void run(const kernel::SumRows&, const OnStream&);
void run(const kernel::SinkGrad&, const OnStream&);

// Computes attention where cuDNN does not support the call. Throws Error for a head dim above 256
// or more than 65,535 samples x heads.
void attend(const kernel::Attention&, Stream);
void attend(const kernel::AttentionGrad&, Stream);
// Compute the same on tensor cores, in bf16 for heads of up to 128 dims, a multiple of 8. Return
// false, without doing anything, for other calls and for rows that are not aligned to 16 bytes. The
// backward pass must find do.o of each query in its workspace.
bool attend_with_mma(const kernel::Attention&, Stream);
bool attend_with_mma(const kernel::AttentionGrad&, Stream);
// Joins attention to one piece of keys with the earlier pieces. o and lse are the result for this
// piece alone; each query must see one of its keys. The joined result is written to the state or,
// with the last piece, to the operation's results.
void join_piece(const kernel::Attention&, const ConstView& o_BTHD, const ConstView& lse_BHT,
                Stream);
// Adds the sinks to the results o and lse of attention that was computed without them.
void join_sinks(const kernel::Attention&, Stream);

// Sorts row numbers by id (sort.cu), for other kernels. `order_T` receives the numbers of the rows
// in ascending order of their ids; rows with the same id stay in row order. All ids are below
// `limit`. Returns the ids in that order. They lie in `memory`, which must have bytes_to_sort(rows)
// bytes and be aligned to 256.
std::size_t bytes_to_sort(std::int64_t rows);
const std::int32_t* sort_rows(Stream, const char* name, std::byte* memory, std::int32_t* order_T,
                              const std::int32_t* ids_T, std::int64_t rows, std::int64_t limit);

// Adds partial sums in order (reduce.cu), for other kernels: a_C = the sum over `parts` rows of
// partial_2PC[0], and b_C that of partial_2PC[1]. With Accumulate::add, the sums are added to a_C
// and b_C. Either may be null.
void add_partials(Stream, float* a_C, float* b_C, Accumulate, const float* partial_2PC,
                  std::int64_t parts, std::int64_t width);
// Computes out = the sum of x in order, or adds it to out.
void sum_in_order(Stream, double* out, Accumulate, const double* x, std::int64_t n);

}  // namespace trireme::cuda
