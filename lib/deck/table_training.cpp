// Keys for how a model is trained: on which tokens, with which loss and which optimizer.
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

KeySection train_section() {
  using T = TrainConfig;
  const auto row = rows_of(&Deck::train);
  return {
      .name = "train",
      .meaning =
          "Batch size, length and objective of the training. Exactly one of steps, tokens and "
          "epochs is required.",
      .keys = {
          row("batch", &T::batch, "Samples per training step, over all ranks (global batch size)")
              .in(1, row_most)
              .in_units("samples"),
          row("batch_ramp", &T::batch_ramp,
              "Smaller batches before train.batch, each with the steps or tokens of the run at "
              "which it ends, such as [\"16 until 1000 steps\", \"32 until 3000 steps\"] or [\"256 "
              "until 5e9 tokens\"]. See docs/decks.md"),
          row("microbatch", &T::microbatch,
              "Samples per forward/backward pass on each data-parallel rank. parallel.data * "
              "microbatch must divide train.batch and the batches of train.batch_ramp. Smaller "
              "values need less memory")
              .in(1, row_most)
              .in_units("samples")
              .automatically(
                  "batch / data if pipe = 1, otherwise the largest value with at least 2 * pipe "
                  "micro-batches per step. With batch_ramp, the value also divides the smaller "
                  "batches. See docs/planning.md"),
          row("steps", &T::steps,
              "Number of training steps. Give one of train.steps, train.tokens and train.epochs")
              .in(1, step_most)
              .in_units("steps")
              .like("1000")
              .needed()
              .unset_at_zero(),
          row("tokens", &T::tokens,
              "Number of training tokens, rounded up to whole steps. Give one of train.steps, "
              "train.tokens and train.epochs")
              .in(1, step_most)
              .in_units("tokens")
              .like("1e9")
              .unset_at_zero(),
          row("epochs", &T::epochs,
              "Number of passes over the training data, rounded up to whole steps. With "
              "data.weights, a pass has as many samples as all files together. The effective deck "
              "contains train.tokens in its place. Give one of train.steps, train.tokens and "
              "train.epochs")
              .above(0, 1e9)
              .in_units("epochs")
              .like("3")
              .unset_at_zero(),
          row("seed", &T::seed, "Random seed for weight initialization, data order and dropout")
              .in(0, step_most),
          row("objective", &T::objective,
              "Training objective. tokens: cross-entropy of the next token. dpo, simpo and orpo: "
              "preference optimization on pairs of answers (`tokenize --preference`). kto: the "
              "same on labeled answers (`tokenize --labeled`). distill: knowledge distillation "
              "from distill.teacher. See docs/dpo.md and docs/distillation.md"),
          row("dpo_beta", &T::dpo_beta,
              "For objective = \"dpo\": factor of the log-probability differences in the loss "
              "(beta). Larger values keep the model closer to the reference model")
              .above(0, 1e3),
          row("dpo_scores", &T::dpo_scores,
              "For objective = \"dpo\" or \"kto\": file with scores of the reference model, "
              "written by `trireme score`. \"\" uses the model without its adapters as reference "
              "and computes its scores in each step")
              .as(ValueKind::path),
          row("simpo_beta", &T::simpo_beta,
              "For objective = \"simpo\": factor of the mean log-probabilities per token in the "
              "loss (beta)")
              .above(0, 1e3),
          row("simpo_gamma", &T::simpo_gamma,
              "For objective = \"simpo\": margin between the two answers that the loss aims for "
              "(gamma)")
              .in(0, 1e3),
          row("orpo_lambda", &T::orpo_lambda,
              "For objective = \"orpo\": weight of the odds ratio loss, which is added to the mean "
              "loss per token of the chosen answer (lambda)")
              .above(0, 1e3),
          row("kto_beta", &T::kto_beta,
              "For objective = \"kto\": factor of the log-probability differences in the loss "
              "(beta). Larger values keep the model closer to the reference model")
              .above(0, 1e3),
          row("kto_desirable_weight", &T::kto_desirable_weight,
              "For objective = \"kto\": weight of the loss of desirable answers (lambda_D)")
              .in(0, 1e3),
          row("kto_undesirable_weight", &T::kto_undesirable_weight,
              "For objective = \"kto\": weight of the loss of undesirable answers (lambda_U)")
              .in(0, 1e3),
          row("balance", &T::balance,
              "Load balancing of experts. none: off. bias: router biases change after each step to "
              "even out the load, which requires model.router = \"sigmoid\". sample: a "
              "load-balancing loss is added for each sample, or for each document if "
              "data.attention = \"document\""),
          row("balance_rate", &T::balance_rate,
              "For balance = \"bias\": amount by which the bias of each expert changes after each "
              "step")
              .in(0, 1)
              .in_f32(),
          row("balance_weight", &T::balance_weight,
              "For balance = \"sample\": weight of the load-balancing loss. Before weighting, the "
              "loss of a layer is 1 if all its experts have the same load")
              .in(0, 1e3)
              .in_f32(),
          row("router_z", &T::router_z,
              "Weight of the router z-loss, the mean square of the log-sum-exp of router logits "
              "(ST-MoE). 0 disables this loss")
              .in(0, 1e3)
              .in_f32(),
          row("max_skipped", &T::max_skipped,
              "Number of consecutive skipped steps after which the run fails. A step is skipped if "
              "its loss or gradients are not finite, if all of its target tokens are masked, or "
              "because of skip_above. Steps in skip_steps do not count")
              .in(1, step_most)
              .in_units("steps"),
          row("skip_above", &T::skip_above,
              "Skip a step whose loss or gradient norm is more than this number of standard "
              "deviations above the mean of the last skip_window updated steps. A common value is "
              "6. 0 skips no such steps")
              .in(0, 1e6),
          row("skip_window", &T::skip_window,
              "Number of steps that skip_above compares with. Until half of them are known, "
              "skip_above skips no step")
              .in(4, 1000)
              .in_units("steps"),
          row("ema", &T::ema,
              "Decay of an exponential moving average of the weights, such as 0.999. Checkpoints "
              "store the average, and evaluate.ema and the option --ema use it. It does not affect "
              "training. 0 keeps no average")
              .below(0, 1),
          row("skip_steps", &T::skip_steps,
              "Steps to skip, such as [\"7\", \"1200-1210\"]. Their samples are not used"),
          row("rollback", &T::rollback,
              "Number of consecutive skipped steps after which the run rolls back to the last "
              "checkpoint before them. It then continues with the samples after the skipped ones. "
              "Must not be above max_skipped. 0 disables this")
              .in(0, step_most)
              .in_units("steps"),
          row("max_rollbacks", &T::max_rollbacks, "Maximum number of rollbacks in a run")
              .in(1, 1000),
      }};
}

KeySection distill_section() {
  using D = DistillConfig;
  const auto row = rows_of(&Deck::distill);
  return {.name = "distill",
          .meaning = "Knowledge distillation, used if train.objective = \"distill\".",
          .keys = {
              row("teacher", &D::teacher,
                  "Checkpoint or run directory of the teacher model. Required for distillation. "
                  "The teacher must have the same vocabulary. Its forward pass runs before each "
                  "step, on the same ranks")
                  .as(ValueKind::path),
              row("temperature", &D::temperature,
                  "Softmax temperature of teacher and model in the distillation loss: "
                  "probabilities are softmax(logits / temperature)")
                  .above(0, 1e3)
                  .in_f32(),
              row("weight", &D::weight,
                  "Weight w of the distillation loss. The loss of a token is (1 - w) * "
                  "cross-entropy + w * temperature^2 * KL(p || q), where p are the teacher's "
                  "probabilities and q the model's")
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
      .meaning = "The optimizer, which updates the weights.",
      .keys = {
          row("name", &O::name,
              "Optimizer: AdamW, SGD, Lion, Muon or Shampoo. muon and shampoo update each weight "
              "matrix as a whole, and AdamW updates all other parameters. See docs/optimizers.md"),
          row("lr", &O::lr,
              "Peak learning rate. Muon needs larger values, such as 0.02, unless matrix_scale is "
              "\"0.2 sqrt(max(out, in))\"")
              .in(0, 1e3)
              .in_f32(),
          KeyRow("betas", reals, betas,
                 "Decay rates of moments. adamw, also with muon and shampoo: of the first and "
                 "second moments. lion: of the momentum in the update and of the stored momentum "
                 "([0.9, 0.99] in Lion's paper). sgd: not used")
              .below(0, 1)
              .elements(2)
              .in_f32(),
          row("eps", &O::eps,
              "Small number that AdamW adds to the square root of the second moment, for numerical "
              "stability")
              .inside(0, 1)
              .in_f32(),
          row("momentum", &O::momentum,
              "Decay rate of the momentum in sgd. 0 means plain SGD, which has no optimizer state")
              .below(0, 1)
              .in_f32(),
          row("nesterov", &O::nesterov,
              "Whether sgd uses Nesterov momentum (Sutskever et al. 2013). Requires "
              "optimizer.momentum above 0"),
          row("weight_decay", &O::weight_decay,
              "Decoupled weight decay. It is multiplied by the learning rate, and never applied to "
              "norms and biases")
              .in(0, 1e3)
              .in_f32(),
          row("no_decay", &O::no_decay,
              "Names of additional parameters without weight decay, with wildcards * and ?"),
          row("clip", &O::clip,
              "Maximum norm of the gradient. Gradients with a larger norm are scaled down to it. 0 "
              "disables clipping")
              .in(0, 1e9)
              .in_f32(),
          row("matrix_momentum", &O::matrix_momentum,
              "Decay rate of the momentum of gradients (muon) or of steps (shampoo)")
              .below(0, 1)
              .in_f32(),
          row("matrix_nesterov", &O::matrix_nesterov,
              "Whether the momentum of muon and shampoo is Nesterov momentum"),
          row("matrix_scale", &O::matrix_scale,
              "Factor on the steps of muon and shampoo for a matrix with out rows and in columns. "
              "sqrt(max(1, out/in)): for learning rates of muon around 0.02 (Jordan et al. 2024). "
              "0.2 sqrt(max(out, in)): for the learning rates of AdamW, because muon's steps are "
              "then as large as AdamW's (Liu et al. 2025). sqrt(out/in): the best learning rate "
              "depends less on the width of the model (Bernstein 2025)"),
          row("matrix_heads", &O::matrix_heads,
              "How muon and shampoo divide the weights of queries, keys and values. together: one "
              "matrix each for queries, keys and values. each: one matrix for each of their heads"),
          row("muon_polynomials", &O::muon_polynomials,
              "Polynomials of the five Newton-Schulz steps in muon. jordan: one polynomial for all "
              "steps (Jordan et al. 2024). polar-express: a more accurate polynomial for each step "
              "(Amsel et al. 2025)"),
          row("shampoo_beta", &O::shampoo_beta,
              "Decay rate of the moving averages of products of gradients in shampoo")
              .below(0, 1)
              .in_f32(),
          row("shampoo_eps", &O::shampoo_eps,
              "Number that shampoo adds to the diagonal of a moving average before it computes "
              "the inverse root, relative to the average's Frobenius norm. Values near the "
              "rounding error of f32 (6e-8) make the roots inaccurate")
              .in(1e-7, 1)
              .in_f32(),
          row("shampoo_every", &O::shampoo_every,
              "Number of updates after which shampoo computes new inverse roots")
              .in(1, step_most)
              .in_units("updates"),
          row("adamw_lr", &O::adamw_lr,
              "Peak learning rate of the parameters that AdamW updates, with muon and shampoo. It "
              "follows the same schedule as optimizer.lr")
              .in(0, 1e3)
              .in_f32()
              .automatically_where_absent("optimizer.lr"),
          row("adamw_weight_decay", &O::adamw_weight_decay,
              "Weight decay of the parameters that AdamW updates, with muon and shampoo")
              .in(0, 1e3)
              .in_f32()
              .automatically_where_absent("optimizer.weight_decay"),
          row("adamw_patterns", &O::adamw_patterns,
              "Names of the matrices that AdamW updates instead of muon or shampoo, with wildcards "
              "* and ?. [] selects embeddings, positions, the head, routers and gates of shared "
              "experts. Your names replace this list, so include the defaults that AdamW must "
              "still update"),
      }};
}

KeySection schedule_section() {
  using S = ScheduleConfig;
  const auto row = rows_of(&Deck::schedule);
  return {
      .name = "schedule",
      .meaning = "The learning rate schedule.",
      .keys = {
          row("shape", &S::shape,
              "Learning rate after warmup. cosine, linear: decays from optimizer.lr to min_lr. "
              "constant: stays at optimizer.lr. wsd (warmup-stable-decay): stays at optimizer.lr, "
              "then decays linearly at the end of the run and at the points in decay_end_steps"),
          row("warmup_steps", &S::warmup_steps,
              "Number of warmup steps, in which the learning rate rises linearly from 0 to "
              "optimizer.lr")
              .in(0, step_most)
              .in_units("steps"),
          row("warmup_tokens", &S::warmup_tokens,
              "Length of the warmup in tokens instead of steps. If one length of the schedule is "
              "in tokens, the whole schedule counts tokens, and all lengths must be in tokens")
              .in(1, step_most)
              .in_units("tokens")
              .like("1e8")
              .unset_at_zero(),
          row("min_lr", &S::min_lr,
              "Learning rate at the end of the decay. If the decay lasts until the end of the run, "
              "the learning rate of the last step is still slightly above min_lr")
              .in(0, 1e3)
              .in_f32(),
          row("decay_steps", &S::decay_steps,
              "Number of steps in which the learning rate decays. With shape = \"wsd\", these are "
              "the last steps of the run. With other shapes, these are the first steps after the "
              "warmup")
              .in(1, step_most)
              .in_units("steps")
              .automatically(
                  "for wsd, the last tenth of the run, otherwise all steps after the warmup"),
          row("decay_tokens", &S::decay_tokens,
              "Length of the decay in tokens instead of steps (see warmup_tokens)")
              .in(1, step_most)
              .in_units("tokens")
              .like("1e9")
              .unset_at_zero(),
          row("decay_end_steps", &S::decay_end_steps,
              "For shape = \"wsd\": steps before the end of the run at which a further decay ends, "
              "such as [10000, 20000]. At each of them, the run saves a checkpoint that it never "
              "removes")
              .in(1, step_most),
          row("decay_end_tokens", &S::decay_end_tokens,
              "The points of decay_end_steps in tokens instead of steps (see warmup_tokens)")
              .in(1, step_most),
      }};
}

KeySection precision_section() {
  using P = PrecisionConfig;
  const auto row = rows_of(&Deck::precision);
  const std::vector types = {DType::f32, DType::bf16, DType::f64};
  return {
      .name = "precision",
      .meaning =
          "Number formats. Master weights and optimizer moments are f32 even if computation is "
          "in bf16.",
      .keys = {
          row("compute", &P::compute,
              "Type of activations and of the weights used in computation. f64 requires "
              "run.backend = \"ref\"",
              types),
          row("reduce", &P::reduce,
              "Type in which gradients are sent between ranks. It does not change the type in "
              "which they are summed",
              types)
              .automatically("f64 if compute is f64, else f32"),
          row("tf32", &P::tf32,
              "Whether f32 matrix products on GPUs use TF32 tensor cores, which are faster but "
              "less accurate"),
          row("products", &P::products,
              "Type of the operands of linear layers in blocks. fp8 rounds weights, activations "
              "and gradients to e4m3 before each product, for faster training of large models on "
              "Hopper GPUs. It requires compute = \"bf16\""),
          row("fp8_except", &P::fp8_except,
              "Names of weights whose products are not in fp8, with wildcards * and ?. For "
              "example, [\"blocks.0.*\"] leaves out the first block"),
          row("fp8_skip_first", &P::fp8_skip_first,
              "Number of blocks at the beginning of the model whose products are not in fp8")
              .in(0, 9999)
              .in_units("blocks"),
          row("fp8_skip_last", &P::fp8_skip_last,
              "Number of blocks at the end of the model whose products are not in fp8")
              .in(0, 9999)
              .in_units("blocks"),
          row("fp8_head", &P::fp8_head,
              "Whether the products of the head are in fp8, too. The size of the vocabulary must "
              "then be a multiple of 16"),
      }};
}

}  // namespace trireme
