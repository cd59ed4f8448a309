#pragma once
// The reference kernels, which implement the operations of kernels/operations.hpp as loops that add
// in double. An operation is finished when its function returns. The result of a row depends only
// on that row. Sums over rows are in row order. The types are f32, bf16 and f64. The comment after
// a function names its source file.
#include "kernels/operations.hpp"

namespace trireme::ref {

void run(const kernel::Copy&);               // copy.cpp
void run(const kernel::Fill&);               // copy.cpp
void run(const kernel::AddFixed&);           // fixed.cpp
void run(const kernel::ReadFixed&);          // fixed.cpp
void run(const kernel::Dequantize&);         // dequantize.cpp
void run(const kernel::Matmul&);             // matmul.cpp
void run(const kernel::Attention&);          // attention.cpp
void run(const kernel::AttentionGrad&);      // attention.cpp
void run(const kernel::SinkGrad&);           // attention.cpp
void run(const kernel::CachedAttention&);    // cached_attention.cpp
void run(const kernel::Norm&);               // norm.cpp
void run(const kernel::NormGrad&);           // norm.cpp
void run(const kernel::ResidualNorm&);       // norm.cpp
void run(const kernel::Dropout&);            // pointwise.cpp
void run(const kernel::Rotary&);             // pointwise.cpp
void run(const kernel::Activate&);           // pointwise.cpp
void run(const kernel::ActivateGrad&);       // pointwise.cpp
void run(const kernel::Scale&);              // pointwise.cpp
void run(const kernel::RowNorms&);           // columns.cpp
void run(const kernel::ScaleColumns&);       // columns.cpp
void run(const kernel::Swiglu&);             // pointwise.cpp
void run(const kernel::SwigluGrad&);         // pointwise.cpp
void run(const kernel::Embedding&);          // embedding.cpp
void run(const kernel::EmbeddingGrad&);      // embedding.cpp
void run(const kernel::CrossEntropy&);       // loss.cpp
void run(const kernel::ColumnSum&);          // reduce.cpp
void run(const kernel::SumSquares&);         // reduce.cpp
void run(const kernel::Update&);             // optimizer.cpp
void run(const kernel::Average&);            // optimizer.cpp
void run(const kernel::Digest&);             // digest.cpp
void run(const kernel::Route&);              // routing.cpp
void run(const kernel::RouteGrad&);          // routing.cpp
void run(const kernel::RouterLosses&);       // routing.cpp
void run(const kernel::CountChoices&);       // routing.cpp
void run(const kernel::SortChoices&);        // routing.cpp
void run(const kernel::SumRows&);            // routing.cpp
void run(const kernel::GroupedMatmul&);      // grouped.cpp
void run(const kernel::GroupedMatmulGrad&);  // grouped.cpp
void run(const kernel::GroupedBias&);        // grouped.cpp
void run(const kernel::GroupedBiasGrad&);    // grouped.cpp
void run(const kernel::RoundToFp8&);         // fp8.cpp
void run(const kernel::Fp8Matmul&);          // fp8.cpp
void run(const kernel::LargestOfTiles&);     // fp8.cpp
void run(const kernel::ScalesOfTiles&);      // fp8.cpp
void run(const kernel::EncodeTiles&);        // fp8.cpp
void run(const kernel::DecodeTiles&);        // fp8.cpp

// Returns the sizes of the workspace and state that attention needs for this shape.
AttentionBytes attention_bytes(const AttentionShape&, Direction);
// Returns the log of a softmax denominator with a sink: log(total * e^largest + e^sink).
double log_with_sink(double largest, double total, double sink);

}  // namespace trireme::ref
