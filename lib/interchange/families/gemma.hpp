#pragma once
// What Gemma 2 and the text models of Gemma 3 share.
#include "lib/interchange/families/decoder.hpp"

namespace trireme {

// Reads or writes everything except windows, rotary settings and the cap of attention scores.
// `logit_softcap` is the cap of logits if the file does not contain it.
void gemma_config(ConfigArchive&, ModelConfig&, std::int64_t context, double logit_softcap);
// Reads or writes a soft cap. Null in the file and 0 in `cap` mean no cap. If the file does not
// contain the member, the cap is `otherwise`.
void softcap_config(ConfigArchive&, const char* key, double& cap, double otherwise);

// Returns the number n for which 1 / sqrt(n) is the scale of attention scores, for Gemma's
// query_pre_attn_scalar. Returns 0 if there is no such integer.
std::int64_t query_scalar_of(const ModelConfig&);

// All tensors. Norm weights are stored minus one.
TensorTable gemma_rows();

}  // namespace trireme
