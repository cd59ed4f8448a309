#pragma once
// The host kernels: what kernels/operations.hpp says of each, done at once. Scratch is the lent
// workspace (16 MiB); a kernel that needs more splits its work. f32 and bf16.
#include "kernels/operations.hpp"

namespace trireme::host {

void run(const kernel::Copy&, View scratch);             // copy.cpp
void run(const kernel::Fill&, View scratch);             //
void run(const kernel::AddFixed&, View scratch);         // fixed.cpp
void run(const kernel::ReadFixed&, View scratch);        // fixed.cpp
void run(const kernel::Dequantize&, View scratch);       // dequantize.cpp
void run(const kernel::Matmul&, View scratch);           // matmul.cpp, through oneDNN
void run(const kernel::Attention&, View scratch);        // attention.cpp
void run(const kernel::AttentionGrad&, View scratch);    // attention_grad.cpp
void run(const kernel::SinkGrad&, View scratch);         // sinks.cpp
void run(const kernel::CachedAttention&, View scratch);  // cached_attention.cpp
void run(const kernel::Norm&, View scratch);             // norm.cpp
void run(const kernel::NormGrad&, View scratch);         //
void run(const kernel::ResidualNorm&, View scratch);     //
void run(const kernel::Dropout&, View scratch);          // dropout.cpp
void run(const kernel::Rotary&, View scratch);           // pointwise.cpp
void run(const kernel::Activate&, View scratch);         //
void run(const kernel::ActivateGrad&, View scratch);     //
void run(const kernel::Scale&, View scratch);            //
void run(const kernel::Swiglu&, View scratch);           //
void run(const kernel::SwigluGrad&, View scratch);       //
void run(const kernel::Embedding&, View scratch);        // embedding.cpp
void run(const kernel::EmbeddingGrad&, View scratch);    //
void run(const kernel::CrossEntropy&, View scratch);     // loss.cpp
void run(const kernel::ColumnSum&, View scratch);        // reduce.cpp
void run(const kernel::SumSquares&, View scratch);       //
void run(const kernel::Update&, View scratch);           // optimizer.cpp
void run(const kernel::Digest&, View scratch);           // digest.cpp

void run(const kernel::Route&, View scratch);              // routing.cpp
void run(const kernel::RouteGrad&, View scratch);          //
void run(const kernel::RouterLosses&, View scratch);       //
void run(const kernel::CountChoices&, View scratch);       // expert_rows.cpp
void run(const kernel::SortChoices&, View scratch);        //
void run(const kernel::SumRows&, View scratch);            //
void run(const kernel::GroupedMatmul&, View scratch);      // grouped.cpp
void run(const kernel::GroupedMatmulGrad&, View scratch);  // grouped_grad.cpp

bool bf16_products();  // can oneDNN multiply bf16 on this processor?

// In floats for each thread at work (E: head dim in whole vectors): forward 192 E + 4,288; backward
// 448 E + 8,320 and 2 E T for sums, or 128 E where those would pass 8 MiB or leave threads idle.
// Bits depend on the sample and head alone.
AttentionBytes attention_bytes(const AttentionShape&, DType, Direction);

}  // namespace trireme::host
