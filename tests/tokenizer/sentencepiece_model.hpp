#pragma once
// Tiny SentencePiece models, trained on the spot.
#include <sentencepiece_trainer.h>

#include <string>

#include "lib/base/error.hpp"
#include "lib/tokenizer/tokenizer.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {

inline const std::string& training_text() {
  static const std::string text = [] {
    const char* words[] = {"the",  "ships", "rowed", "past",  "three", "harbours", "and",  "a",
                           "town", "where", "oars",  "broke", "waves", "under",    "grey", "sky"};
    std::string t;
    for (unsigned i = 0, x = 1; i < 4000; ++i) {
      x = x * 1664525U + 1013904223U;
      t += words[x >> 28];
      t += i % 11 == 10 ? ".\n" : i % 37 == 5 ? ", " : " ";
    }
    return t;
  }();
  return text;
}

// `normalisation`: "nmt_nfkc" folds white space, as by default; "identity" keeps text as it is,
// line ends as bytes, as in the models of Llama.
inline TokenizerSpec train_sentencepiece(const std::string& type,
                                         const std::string& normalisation) {
  const ScratchFolder scratch;
  const std::string input = scratch.write("text.txt", training_text());
  std::string model;
  const std::string identity =
      normalisation == "identity" ? " --byte_fallback=true --remove_extra_whitespaces=false" : "";
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--minloglevel=3 --num_threads=1 --input=" + input + " --vocab_size=" +
          (identity.empty() ? "80" : "340") + " --hard_vocab_limit=false --model_type=" + type +
          " --normalization_rule_name=" + normalisation + identity,
      nullptr, &model);
  require(status.ok(), "training failed: {}", status.ToString());
  return {TokenizerKind::sentencepiece, model};
}

}  // namespace trireme
