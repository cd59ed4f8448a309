// What is trained, on which tokens and how.
#include "lib/deck/preset.hpp"
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

namespace {

std::vector<std::string> presets() {
  std::vector<std::string> names = {""};
  for (auto name : model_preset_names()) names.emplace_back(name);
  return names;
}

}  // namespace

DeckSection model_section() {
  using M = ModelConfig;
  const auto section = section_of(&Deck::model);
  const auto plain = [&](auto field) { return member(section, field); };
  const auto automatic = [&](auto field) { return automatic_member(section, field); };
  const auto choice = [&](std::string name, auto field, std::string meaning) {
    return choice_of(std::move(name), section, field, std::move(meaning));
  };
  return {
      .name = "model",
      .meaning = "The transformer.",
      .keys = {
          KeyRow("preset", ValueKind::choice, plain(&M::preset),
                 "a known shape that the keys below start from, or that of a checkpoint or run "
                 "directory DIR; empty: GPT-2's smallest")
              .of(presets())
              .or_path_behind(std::string(checkpoint_preset)),
          KeyRow("layers", integer, plain(&M::layers), "transformer blocks").in(1, 10000),
          KeyRow("width", integer, plain(&M::width), "channels of the residual stream")
              .in(1, row_most),
          KeyRow("heads", integer, plain(&M::heads), "query heads").in(1, row_most),
          KeyRow("kv_heads", integer, automatic(&M::kv_heads),
                 "key and value heads; must divide heads")
              .in(1, row_most)
              .automatically("heads"),
          KeyRow("head_dim", integer, automatic(&M::head_dim),
                 "channels of a head; even for rotary positions")
              .in(1, row_most)
              .automatically("width/heads, which must be whole"),
          KeyRow("ffn_width", integer, automatic(&M::ffn_width), "channels inside the MLP")
              .in(1, row_most)
              .automatically("4*width for gelu; 8/3*width for swiglu, up to a multiple of 64"),
          KeyRow("vocab", integer, automatic(&M::vocab),
                 "rows of the embedding; at least the token file's vocabulary")
              .in(1, int32_most)
              .automatically("the token file's"),
          KeyRow("context", integer, plain(&M::context), "length of a sample")
              .in(1, int32_most)
              .in_units("tokens"),
          KeyRow("max_context", integer, automatic(&M::max_context),
                 "positions of the model, where samples are shorter: rows of a learned table, and "
                 "what an export names")
              .in(1, int32_most)
              .in_units("tokens")
              .automatically("context; with a preset from:DIR what that model has"),
          choice("norm", &M::norm, "layer norm or RMS norm"),
          KeyRow("norm_eps", real, plain(&M::norm_eps), "added to the variance in a norm")
              .inside(0, 1)
              .in_f32(),
          KeyRow("bias", flag, plain(&M::bias), "biases in projections and layer norms"),
          KeyRow("qkv_bias", flag, plain(&M::qkv_bias),
                 "a bias in the product to queries, keys and values (Qwen2); bias = true has it "
                 "anyway"),
          KeyRow("qk_norm", flag, plain(&M::qk_norm),
                 "RMS norm of each head's query and key, before positions (Qwen3)"),
          choice("activation", &M::activation, "pointwise function of the MLP"),
          choice("positions", &M::positions,
                 "a table added to the embedding, or rotation of queries and keys"),
          KeyRow("rope_theta", real, plain(&M::rope_theta), "base of the rotary frequencies")
              .above(0, 1e12),
          choice("rope_scaling", &M::rope_scaling,
                 "rotary frequencies for a longer context than the original: as they are, all "
                 "divided by rope_factor (Chen et al. 2023), or low ones alone (Llama 3.1)"),
          KeyRow("rope_factor", real, plain(&M::rope_factor),
                 "what scaled rotary frequencies are divided by")
              .in(1, 1e6),
          KeyRow("rope_low_freq_factor", real, plain(&M::rope_low_freq_factor),
                 "llama3: up to so many turns in the original context, division is whole")
              .above(0, 1e6),
          KeyRow("rope_high_freq_factor", real, plain(&M::rope_high_freq_factor),
                 "llama3: from so many turns in the original context on, there is none")
              .above(0, 1e6),
          KeyRow("rope_original_context", integer, plain(&M::rope_original_context),
                 "llama3: context before scaling")
              .in(1, int32_most)
              .in_units("tokens"),
          KeyRow("tied", flag, plain(&M::tied), "embedding and head share one table"),
          KeyRow("dropout", real, plain(&M::dropout),
                 "probability on residual branches and the embedding")
              .below(0, 1)
              .in_f32(),
          choice("recompute", &M::recompute, "what backward computes again to save memory"),
          KeyRow("init_from", path, plain(&M::init_from),
                 "checkpoint whose weights start the run at step 0 (fine-tuning); empty: none"),
      }};
}

DeckSection data_section() {
  using D = DataConfig;
  const auto section = section_of(&Deck::data);
  const auto plain = [&](auto field) { return member(section, field); };
  const DeckAccess validation = {[](const Deck& d, std::size_t) -> DeckValue {
                                   if (d.data.validation_fraction > 0)
                                     return d.data.validation_fraction;
                                   return d.data.validation_files;
                                 },
                                 [](Deck& d, std::size_t, const DeckValue& v) {
                                   const auto* fraction = std::get_if<double>(&v);
                                   d.data.validation_fraction = fraction ? *fraction : 0;
                                   d.data.validation_files.clear();
                                   if (!fraction)
                                     d.data.validation_files =
                                         std::get<std::vector<std::string>>(v);
                                 }};
  return {.name = "data",
          .meaning = "The tokens trained on; `trireme tokenize` makes token files.",
          .keys = {
              KeyRow("path", paths, plain(&D::path), "token files")
                  .like("[\"corpus.tokens\"]")
                  .needed(),
              KeyRow("weights", reals, automatic_member(section, &D::weights),
                     "share of samples from each file")
                  .above(0, 1e9)
                  .automatically("by size"),
              KeyRow("validation", fraction_or_paths, validation,
                     "held out: token files, or the fraction of each file's tail; []: nothing")
                  .below(0, 1)
                  .like("0.01"),
              choice_of("order", section, &D::order,
                        "a permutation of all samples each epoch, or as they stand in the files"),
              choice_of("attention", section, &D::attention,
                        "a token sees all earlier ones of its sample, or those of its document, "
                        "which a separator ends and whose positions begin at 0"),
              KeyRow("separator_masks", flag, plain(&D::separator_masks),
                     "no loss on a document's first token, which follows a separator"),
          }};
}

DeckSection train_section() {
  using T = TrainConfig;
  const auto plain = [](auto field) { return member(section_of(&Deck::train), field); };
  return {
      .name = "train",
      .meaning = "Batch and length of the run; give exactly one of steps and tokens.",
      .keys = {
          KeyRow("batch", integer, plain(&T::batch), "size of a step, over all ranks")
              .in(1, row_most)
              .in_units("samples"),
          KeyRow("microbatch", integer, automatic_member(section_of(&Deck::train), &T::microbatch),
                 "what one data rank runs at a time; data * microbatch must divide batch")
              .in(1, row_most)
              .in_units("samples")
              .automatically("batch/data; with pipe > 1 the largest that keeps 2*pipe of them"),
          KeyRow("steps", integer, plain(&T::steps), "length of the run, unless tokens gives it")
              .in(1, step_most)
              .in_units("steps")
              .like("1000")
              .needed()
              .unset_at_zero(),
          KeyRow("tokens", integer, plain(&T::tokens),
                 "length of the run, rounded up to whole steps")
              .in(1, step_most)
              .in_units("tokens")
              .like("1e9")
              .unset_at_zero(),
          KeyRow("seed", integer, plain(&T::seed),
                 "start of all randomness: initialisation, data order, dropout")
              .in(0, step_most),
          KeyRow("max_skipped", integer, plain(&T::max_skipped),
                 "steps in a row that stop the run when all are skipped: not finite, or without "
                 "targets")
              .in(1, step_most)
              .in_units("steps"),
      }};
}

DeckSection optimizer_section() {
  using O = OptimizerConfig;
  const auto section = section_of(&Deck::optimizer);
  const auto plain = [&](auto field) { return member(section, field); };
  const DeckAccess betas = {[](const Deck& d, std::size_t) -> DeckValue {
                              return std::vector{d.optimizer.beta1, d.optimizer.beta2};
                            },
                            [](Deck& d, std::size_t, const DeckValue& v) {
                              const auto& pair = std::get<std::vector<double>>(v);
                              d.optimizer.beta1 = pair.at(0);
                              d.optimizer.beta2 = pair.at(1);
                            }};
  return {.name = "optimizer",
          .meaning = "How gradients change weights.",
          .keys = {
              choice_of("name", section, &O::name, "the method"),
              KeyRow("lr", real, plain(&O::lr), "learning rate at its peak").in(0, 1e3).in_f32(),
              KeyRow("betas", reals, betas,
                     "adamw: decay of the first and second moment; lion: of the momentum in the "
                     "step, and of the momentum that is kept (0.9 and 0.99 in its paper)")
                  .below(0, 1)
                  .elements(2)
                  .in_f32(),
              KeyRow("eps", real, plain(&O::eps), "added to the root of AdamW's second moment")
                  .inside(0, 1)
                  .in_f32(),
              KeyRow("momentum", real, plain(&O::momentum),
                     "sgd: decay of the running sum of gradients; 0: plain SGD, no sum is kept")
                  .below(0, 1)
                  .in_f32(),
              KeyRow("nesterov", flag, plain(&O::nesterov),
                     "sgd: Nesterov's momentum, which looks a step ahead (Sutskever et al. 2013)"),
              KeyRow("weight_decay", real, plain(&O::weight_decay),
                     "decoupled, times the learning rate; never on norms and biases")
                  .in(0, 1e3)
                  .in_f32(),
              KeyRow("no_decay", texts, plain(&O::no_decay),
                     "further parameters without decay, by name; * and ? stand for any text"),
              KeyRow("clip", real, plain(&O::clip), "largest gradient norm; 0: no clipping")
                  .in(0, 1e9)
                  .in_f32(),
          }};
}

DeckSection schedule_section() {
  using S = ScheduleConfig;
  const auto section = section_of(&Deck::schedule);
  const auto plain = [&](auto field) { return member(section, field); };
  return {.name = "schedule",
          .meaning = "The learning rate over the steps.",
          .keys = {
              choice_of("shape", section, &S::shape,
                        "after warm-up; wsd: constant, then a linear decay at the end"),
              KeyRow("warmup_steps", integer, plain(&S::warmup_steps), "linear rise from 0 to lr")
                  .in(0, step_most)
                  .in_units("steps"),
              KeyRow("min_lr", real, plain(&S::min_lr), "learning rate where the decay ends")
                  .in(0, 1e3)
                  .in_f32(),
              KeyRow("decay_steps", integer, automatic_member(section, &S::decay_steps),
                     "length of the decay")
                  .in(1, step_most)
                  .in_units("steps")
                  .automatically("all after warm-up; for wsd the last tenth of the run"),
          }};
}

DeckSection precision_section() {
  using P = PrecisionConfig;
  const auto section = section_of(&Deck::precision);
  const std::vector types = {DType::f32, DType::bf16, DType::f64};
  return {
      .name = "precision",
      .meaning = "Number formats; master weights and moments of bf16 are f32.",
      .keys = {
          choice_of("compute", section, &P::compute,
                    "activations and gathered weights; f64 needs run.backend = \"ref\"", types),
          choice_of("reduce", section, &P::reduce,
                    "gradients on their way to the rank that adds them; sums keep their type",
                    types)
              .automatically("f64 for f64, else f32"),
          KeyRow("tf32", flag, member(section, &P::tf32), "tensor cores for f32 products on GPUs"),
      }};
}

}  // namespace trireme
