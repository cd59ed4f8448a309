#pragma once
// The reference kernels: what kernels/operations.hpp says of each, done at once by loops that add
// in double. A row's result depends on that row alone; sums over rows go in row order. f32, bf16
// and f64.
#include "kernels/operations.hpp"

namespace trireme::ref {

void run(const kernel::Copy&);               // copy.cpp
void run(const kernel::Fill&);               //
void run(const kernel::AddFixed&);           // fixed.cpp
void run(const kernel::ReadFixed&);          // fixed.cpp
void run(const kernel::Dequantize&);         // dequantize.cpp
void run(const kernel::Matmul&);             // matmul.cpp
void run(const kernel::Attention&);          // attention.cpp
void run(const kernel::AttentionGrad&);      //
void run(const kernel::SinkGrad&);           //
void run(const kernel::CachedAttention&);    // cached_attention.cpp
void run(const kernel::Norm&);               // norm.cpp
void run(const kernel::NormGrad&);           //
void run(const kernel::ResidualNorm&);       //
void run(const kernel::Dropout&);            // pointwise.cpp
void run(const kernel::Rotary&);             //
void run(const kernel::Activate&);           //
void run(const kernel::ActivateGrad&);       //
void run(const kernel::Scale&);              //
void run(const kernel::Swiglu&);             //
void run(const kernel::SwigluGrad&);         //
void run(const kernel::Embedding&);          // embedding.cpp
void run(const kernel::EmbeddingGrad&);      //
void run(const kernel::CrossEntropy&);       // loss.cpp
void run(const kernel::ColumnSum&);          // reduce.cpp
void run(const kernel::SumSquares&);         //
void run(const kernel::Update&);             // optimizer.cpp
void run(const kernel::Digest&);             // digest.cpp
void run(const kernel::Route&);              // routing.cpp
void run(const kernel::RouteGrad&);          //
void run(const kernel::RouterLosses&);       //
void run(const kernel::CountChoices&);       //
void run(const kernel::SortChoices&);        //
void run(const kernel::SumRows&);            //
void run(const kernel::GroupedMatmul&);      // grouped.cpp
void run(const kernel::GroupedMatmulGrad&);  //

AttentionBytes attention_bytes(const AttentionShape&, Direction);
// The log of `total` exponentials below `largest` and the sink's.
double log_with_sink(double largest, double total, double sink);

}  // namespace trireme::ref
