// How a model is trained: on which tokens, with which loss and optimizer.
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

KeySection data_section() {
  using D = DataConfig;
  const auto row = rows_of(&Deck::data);
  const auto validation = row.access(
      [](const D& d) {
        return d.validation_fraction > 0 ? KeyValue(d.validation_fraction)
                                         : KeyValue(d.validation_files);
      },
      [](D& d, const KeyValue& v) {
        const auto* fraction = std::get_if<double>(&v);
        d.validation_fraction = fraction ? *fraction : 0;
        d.validation_files.clear();
        if (!fraction) d.validation_files = std::get<std::vector<std::string>>(v);
      });
  return {
      .name = "data",
      .meaning = "The tokens trained on; `trireme tokenize` makes token files.",
      .keys = {
          row("path", &D::path, "token files").as(paths).like("[\"corpus.tokens\"]").needed(),
          row("weights", &D::weights, "share of samples from each file")
              .above(0, 1e9)
              .automatically("by size"),
          KeyRow("validation", fraction_or_paths, validation,
                 "held out: token files, or the fraction of each file's tail; []: nothing")
              .below(0, 1)
              .like("0.01"),
          row("order", &D::order,
              "a permutation of all samples each epoch, or as they stand in the files (of whole "
              "documents: nearly, as short ones fill what earlier samples have left)"),
          row("packing", &D::packing,
              "windows: samples follow each other in the file, whatever they cut; documents: "
              "whole documents, which separators end, as many as a sample holds, then nothing"),
          row("long_documents", &D::long_documents,
              "of samples of whole documents, those that are longer: cut: they lose their end, in "
              "a conversation back to where an answer ends; split: their end goes on as a further "
              "document; drop: they are left out; refuse: the run is refused. Pairs of documents "
              "are left out, or refused"),
          row("attention", &D::attention,
              "a token sees all earlier ones of its sample, or those of its document, "
              "which a separator ends and whose positions begin at 0"),
          row("separator_masks", &D::separator_masks,
              "no loss on a document's first token, which follows a separator"),
      }};
}

KeySection train_section() {
  using T = TrainConfig;
  const auto row = rows_of(&Deck::train);
  return {.name = "train",
          .meaning = "Batch and length of the run; give exactly one of steps and tokens.",
          .keys = {
              row("batch", &T::batch, "size of a step, over all ranks")
                  .in(1, row_most)
                  .in_units("samples"),
              row("microbatch", &T::microbatch,
                  "what one data rank runs at a time; data * microbatch must divide batch")
                  .in(1, row_most)
                  .in_units("samples")
                  .automatically(
                      "batch/data; with pipe > 1 the largest that keeps 2*pipe of them, or else 1"),
              row("steps", &T::steps, "length of the run, unless tokens gives it")
                  .in(1, step_most)
                  .in_units("steps")
                  .like("1000")
                  .needed()
                  .unset_at_zero(),
              row("tokens", &T::tokens, "length of the run, rounded up to whole steps")
                  .in(1, step_most)
                  .in_units("tokens")
                  .like("1e9")
                  .unset_at_zero(),
              row("seed", &T::seed, "start of all randomness: initialisation, data order, dropout")
                  .in(0, step_most),
              row("objective", &T::objective,
                  "tokens: the mean loss of what is learnt; dpo: of pairs of documents (trireme "
                  "tokenize --preference) the chosen one is to become likelier, against a fixed "
                  "model, than the rejected one (Rafailov et al. 2023); distill: of what is learnt "
                  "what the model of distill.teacher says of it (Hinton et al. 2015)"),
              row("dpo_beta", &T::dpo_beta,
                  "objective = \"dpo\": what a difference of log-probabilities is multiplied with; "
                  "the larger, the nearer the model stays")
                  .above(0, 1e3),
              row("dpo_scores", &T::dpo_scores,
                  "objective = \"dpo\": the file in which trireme score says what the fixed model "
                  "makes of the pairs; without it, that is the model without adapters, computed in "
                  "each step")
                  .as(ValueKind::path),
              row("balance", &T::balance,
                  "what keeps experts evenly loaded: a bias of the router that moves after each "
                  "step by the loads of its tokens (router = \"sigmoid\"), a loss that counts "
                  "each sample, or document that stands apart, by itself, or nothing"),
              row("balance_rate", &T::balance_rate, "balance = \"bias\": how far it moves a step")
                  .in(0, 1)
                  .in_f32(),
              row("balance_weight", &T::balance_weight,
                  "balance = \"sample\": weight of the loss, which is 1 for even loads")
                  .in(0, 1e3)
                  .in_f32(),
              row("router_z", &T::router_z,
                  "weight of the mean square of log sum exp of a router's logits (ST-MoE); 0: none")
                  .in(0, 1e3)
                  .in_f32(),
              row("max_skipped", &T::max_skipped,
                  "steps in a row that stop the run when all are skipped: not finite, or without "
                  "targets")
                  .in(1, step_most)
                  .in_units("steps"),
          }};
}

KeySection distill_section() {
  using D = DistillConfig;
  const auto row = rows_of(&Deck::distill);
  return {
      .name = "distill",
      .meaning = "What train.objective = \"distill\" learns from.",
      .keys = {
          row("teacher", &D::teacher,
              "checkpoint of a model of the same vocabulary, which runs forward alone before each "
              "step, on the run's grid")
              .as(ValueKind::path),
          row("temperature", &D::temperature,
              "t: distributions p of the teacher and q of the model are softmax(logits / t)")
              .above(0, 1e3)
              .in_f32(),
          row("weight", &D::weight,
              "w: a token's loss is 1 - w of its cross entropy and w t^2 sum p log(p / q)")
              .in(0, 1)
              .in_f32(),
      }};
}

KeySection optimizer_section() {
  using O = OptimizerConfig;
  const auto row = rows_of(&Deck::optimizer);
  const auto betas = row.access(
      [](const O& o) {
        return std::vector{o.beta1, o.beta2};
      },
      [](O& o, const KeyValue& v) {
        const auto& pair = std::get<std::vector<double>>(v);
        o.beta1 = pair.at(0);
        o.beta2 = pair.at(1);
      });
  return {
      .name = "optimizer",
      .meaning = "How gradients change weights.",
      .keys = {
          row("name", &O::name, "the method"),
          row("lr", &O::lr, "learning rate at its peak").in(0, 1e3).in_f32(),
          KeyRow("betas", reals, betas,
                 "adamw: decay of the first and second moment; lion: of the momentum in the "
                 "step, and of the momentum that is kept (0.9 and 0.99 in its paper)")
              .below(0, 1)
              .elements(2)
              .in_f32(),
          row("eps", &O::eps, "added to the root that a step is divided by").inside(0, 1).in_f32(),
          row("momentum", &O::momentum,
              "sgd: decay of the running sum of gradients; 0: plain SGD, no sum is kept")
              .below(0, 1)
              .in_f32(),
          row("nesterov", &O::nesterov,
              "sgd: Nesterov's momentum, which looks a step ahead (Sutskever et al. 2013)"),
          row("weight_decay", &O::weight_decay,
              "decoupled, times the learning rate; never on norms and biases")
              .in(0, 1e3)
              .in_f32(),
          row("no_decay", &O::no_decay,
              "further parameters without decay, by name; * and ? stand for any text"),
          row("clip", &O::clip, "largest gradient norm; 0: no clipping").in(0, 1e9).in_f32(),
      }};
}

KeySection schedule_section() {
  using S = ScheduleConfig;
  const auto row = rows_of(&Deck::schedule);
  return {
      .name = "schedule",
      .meaning = "The learning rate over the steps.",
      .keys = {
          row("shape", &S::shape, "after warm-up; wsd: constant, then a linear decay at the end"),
          row("warmup_steps", &S::warmup_steps, "linear rise from 0 to lr")
              .in(0, step_most)
              .in_units("steps"),
          row("min_lr", &S::min_lr, "learning rate behind the decay, whose last step is above it")
              .in(0, 1e3)
              .in_f32(),
          row("decay_steps", &S::decay_steps, "length of the decay")
              .in(1, step_most)
              .in_units("steps")
              .automatically("all after warm-up; for wsd the last tenth of the run"),
      }};
}

KeySection precision_section() {
  using P = PrecisionConfig;
  const auto row = rows_of(&Deck::precision);
  const std::vector types = {DType::f32, DType::bf16, DType::f64};
  return {.name = "precision",
          .meaning = "Number formats; master weights and moments of bf16 are f32.",
          .keys = {
              row("compute", &P::compute,
                  "activations and gathered weights; f64 needs run.backend = \"ref\"", types),
              row("reduce", &P::reduce,
                  "gradients on their way to the rank that adds them; sums keep their type", types)
                  .automatically("f64 for f64, else f32"),
              row("tf32", &P::tf32, "tensor cores for f32 products on GPUs"),
          }};
}

}  // namespace trireme
