#pragma once
// The host kernels, which implement the operations of kernels/operations.hpp. An operation is
// finished when its function returns. `scratch` is the lent workspace (16 MiB). A kernel that needs
// more splits its work. The types are f32 and bf16. The comment after a function names its source
// file.
#include "kernels/operations.hpp"

namespace trireme::host {

void run(const kernel::Copy&, View scratch);             // copy.cpp
void run(const kernel::Fill&, View scratch);             // copy.cpp
void run(const kernel::AddFixed&, View scratch);         // fixed.cpp
void run(const kernel::ReadFixed&, View scratch);        // fixed.cpp
void run(const kernel::Dequantize&, View scratch);       // dequantize.cpp
void run(const kernel::Matmul&, View scratch);           // matmul.cpp, through oneDNN
void run(const kernel::Attention&, View scratch);        // attention.cpp
void run(const kernel::AttentionGrad&, View scratch);    // attention_grad.cpp
void run(const kernel::SinkGrad&, View scratch);         // sinks.cpp
void run(const kernel::CachedAttention&, View scratch);  // cached_attention.cpp
void run(const kernel::Norm&, View scratch);             // norm.cpp
void run(const kernel::NormGrad&, View scratch);         // norm.cpp
void run(const kernel::ResidualNorm&, View scratch);     // norm.cpp
void run(const kernel::Dropout&, View scratch);          // dropout.cpp
void run(const kernel::Rotary&, View scratch);           // pointwise.cpp
void run(const kernel::Activate&, View scratch);         // pointwise.cpp
void run(const kernel::ActivateGrad&, View scratch);     // pointwise.cpp
void run(const kernel::Scale&, View scratch);            // pointwise.cpp
void run(const kernel::RowNorms&, View scratch);         // columns.cpp
void run(const kernel::ScaleColumns&, View scratch);     // columns.cpp
void run(const kernel::Swiglu&, View scratch);           // pointwise.cpp
void run(const kernel::SwigluGrad&, View scratch);       // pointwise.cpp
void run(const kernel::Embedding&, View scratch);        // embedding.cpp
void run(const kernel::EmbeddingGrad&, View scratch);    // embedding.cpp
void run(const kernel::CrossEntropy&, View scratch);     // loss.cpp
void run(const kernel::ColumnSum&, View scratch);        // reduce.cpp
void run(const kernel::SumSquares&, View scratch);       // reduce.cpp
void run(const kernel::Update&, View scratch);           // optimizer.cpp
void run(const kernel::Average&, View scratch);          // optimizer.cpp
void run(const kernel::Digest&, View scratch);           // digest.cpp

void run(const kernel::Route&, View scratch);              // routing.cpp
void run(const kernel::RouteGrad&, View scratch);          // routing.cpp
void run(const kernel::RouterLosses&, View scratch);       // routing.cpp
void run(const kernel::CountChoices&, View scratch);       // expert_rows.cpp
void run(const kernel::SortChoices&, View scratch);        // expert_rows.cpp
void run(const kernel::SumRows&, View scratch);            // expert_rows.cpp
void run(const kernel::GroupedMatmul&, View scratch);      // grouped.cpp
void run(const kernel::GroupedMatmulGrad&, View scratch);  // grouped_grad.cpp
void run(const kernel::GroupedBias&, View scratch);        // grouped_bias.cpp
void run(const kernel::GroupedBiasGrad&, View scratch);    // grouped_bias.cpp

void run(const kernel::RoundToFp8&, View scratch);      // fp8.cpp
void run(const kernel::Fp8Matmul&, View scratch);       // fp8.cpp
void run(const kernel::LargestOfTiles&, View scratch);  // fp8.cpp
void run(const kernel::ScalesOfTiles&, View scratch);   // fp8.cpp
void run(const kernel::EncodeTiles&, View scratch);     // fp8.cpp
void run(const kernel::DecodeTiles&, View scratch);     // fp8.cpp

// Returns true if oneDNN can multiply bf16 on this processor.
bool bf16_products();

// Returns the memory that attention needs. The workspace holds, for each working thread, these
// numbers of floats (E is the head dim rounded up to whole vectors, n is 1 to 8 query tiles at a
// time):
//   forward   128 E + 4,160 + n (128 E + 128)
//   backward  128 E + 8,192 + n (320 E + 128), and 2 E T for the sums of dk and dv. If these would
//             exceed 32 MiB or leave threads idle, 128 E for each of 1 to 8 key tiles at a time
// The bits of a result depend only on its sample and head.
AttentionBytes attention_bytes(const AttentionShape&, DType, Direction);

}  // namespace trireme::host
