#include "lib/autograd/token_chunks.hpp"

#include <algorithm>

namespace trireme {

std::vector<TokenChunk> token_chunks(std::int64_t samples, std::int64_t tokens,
                                     std::int64_t at_once) {
  if (at_once == 0 || at_once >= samples * tokens) return {{0, samples, 0, tokens}};
  std::vector<TokenChunk> all;
  const auto samples_each = std::max<std::int64_t>(1, at_once / tokens),
             tokens_each = std::min(at_once, tokens);
  for (std::int64_t b = 0; b < samples; b += samples_each)
    for (std::int64_t t = 0; t < tokens; t += tokens_each)
      all.push_back({b, std::min(samples_each, samples - b), t, std::min(tokens_each, tokens - t)});
  return all;
}

PassContext pass_of(const PassContext& all, const TokenChunk& c) {
  const auto samples = [&](const ConstView& v) { return v ? v.slice(0, c.sample, c.samples) : v; };
  const auto tokens = [&](const ConstView& v_BT) {
    return v_BT ? samples(v_BT).slice(1, c.token, c.tokens) : v_BT;
  };
  PassContext p = all;
  p.rows.sample_B = samples(all.rows.sample_B);
  p.rows.t0 = all.rows.t0 + c.token;
  if (const auto& at_T = all.rows.position_T) p.rows.position_T = at_T.slice(0, c.token, c.tokens);
  p.targets_BT = tokens(all.targets_BT);
  p.start_BT = samples(all.start_BT);
  p.position_BT = tokens(all.position_BT);
  return p;
}

Tensor rows_of(const Tensor& x_BTC, const TokenChunk& c) {
  const auto& s = x_BTC.shape();
  return x_BTC.slice((c.sample * s[1] + c.token) * s[2], {c.samples, c.tokens, s[2]});
}

}  // namespace trireme
