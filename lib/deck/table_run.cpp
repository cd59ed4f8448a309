// Where it runs: the grid, sharding, checkpoints, the job.
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

KeySection parallel_section() {
  using P = ParallelConfig;
  const auto row = rows_of(&Deck::parallel);
  return {
      .name = "parallel",
      .meaning = "The grid of ranks: pipe * data * seq, seq fastest.",
      .keys = {
          row("pipe", &P::pipe, "pipeline stages").in(1, 10000).in_units("ranks"),
          row("data", &P::data, "data ranks")
              .in(1, 1 << 20)
              .in_units("ranks")
              .automatically("the number of ranks / (pipe * seq)"),
          row("expert", &P::expert,
              "ranks of data x seq that hold a stage's experts between them, and send each other "
              "the tokens that chose them; 1: each rank computes all of its own tokens' experts")
              .in(1, 65536)
              .in_units("ranks"),
          row("expert_tokens", &P::expert_tokens,
              "tokens that a rank takes for its experts at a time, each as often as it chose "
              "one of them; more of them take more rounds and, but with zero-bubble and zbv, no "
              "more memory")
              .in(1, row_most)
              .automatically("1.25 times what even loads bring"),
          row("seq", &P::seq,
              "ranks that share each sample's tokens, a divisor of model.context; up to "
              "model.heads of them share out attention's heads, beyond that groups of them its "
              "positions, too")
              .in(1, 65536)
              .in_units("ranks"),
          row("stage_layers", &P::stage_layers,
              "transformer blocks of each stage; with chunks of each chunk, in the order "
              "of the model")
              .in(1, 10000)
              .automatically("balanced by cost"),
          row("schedule", &P::schedule,
              "the order of a pipeline's work: one forward, one backward; the same for "
              "several chunks of each stage, which idles less and sends more; with "
              "weight gradients behind the gradients of inputs (ZB-H1), which idles less "
              "and keeps more; or so with two chunks of each stage, the first from the "
              "model's front and the second from its back (ZB-V), which sends twice as "
              "much and idles least where all stages have as much to do; each keeps what the "
              "first one does with \"1f1b\""),
          row("chunks", &P::chunks,
              "parts of the model on each stage: 2 or more with parallel.schedule = "
              "\"interleaved\", 2 with \"zbv\"")
              .in(1, 64),
      }};
}

KeySection zero_section() {
  using Z = ZeroSection;
  const auto row = rows_of(&Deck::zero);
  const auto shard =
      row.access([](const Z& z) { return z.copy_each_node ? KeyValue("node") : KeyValue(z.shard); },
                 [](Z& z, const KeyValue& v) {
                   const auto* ranks = std::get_if<std::int64_t>(&v);
                   z.shard = ranks ? *ranks : 0;
                   z.copy_each_node = std::holds_alternative<std::string>(v);
                 });
  return {.name = "zero",
          .meaning = "Sharding of weights, gradients and optimizer state over data x seq.",
          .keys = {
              row("stage", &Z::stage,
                  "sharded: 0 nothing, 1 optimizer, 2 also gradients, 3 also weights")
                  .in(0, 3),
              KeyRow("shard", integer, shard,
                     "ranks that share one copy; groups of that many are replicas")
                  .in(1, 1 << 20)
                  .in_units("ranks")
                  .automatically("data * seq")
                  .or_word("node", "the ranks of a stage on one node; nodes are replicas"),
              row("gather", &Z::gather, "how often weights are gathered, at stage 3"),
              row("reduce", &Z::reduce, "how often gradients are reduced, at stage 3"),
              row("prefetch", &Z::prefetch, "gathers in flight ahead of their use").in(0, 64),
              row("scatters", &Z::scatters, "reduce-scatters in flight").in(1, 64),
              row("detect_freeze", &Z::detect_freeze,
                  "check at each step whether the set of trainable parameters has changed"),
          }};
}

KeySection freeze_section() {
  using F = FreezeRule;
  const auto row = rows_of(&Deck::freeze);
  return repeated(
      &Deck::freeze, "freeze",
      "Parameters that are not trained in some steps; one [[freeze]] a rule. Its steps count from "
      "0, those of all other keys from 1.",
      {
          row("pattern", &F::pattern, "parameters by name; * and ? stand for any text")
              .like("\"blocks.0.*\"")
              .needed(),
          row("from_step", &F::from_step,
              "first frozen step, counted from 0: step 1 of history.csv is 0 here")
              .in(0, step_most),
          row("to_step", &F::to_step,
              "first step trained again, counted from 0, so that steps from_step + 1 to to_step of "
              "history.csv are frozen; 0: frozen to the end")
              .in(0, step_most),
          row("moments", &F::moments,
              "the optimizer's arrays after thawing: zero, or as they were before; where rules "
              "overlap or follow without a gap, the first decides, the last in the deck of "
              "those that begin together"),
      });
}

KeySection evaluate_section() {
  using E = EvaluateConfig;
  const auto row = rows_of(&Deck::evaluate);
  return {
      .name = "evaluate",
      .meaning = "Loss on data.validation, into evaluation.csv.",
      .keys = {
          row("every_steps", &E::every_steps,
              "steps between evaluations while training, 0: none; one follows the last step")
              .in(0, step_most)
              .in_units("steps"),
          row("batches", &E::batches,
              "length of one evaluation, in batches of train.batch samples, which are spread "
              "evenly over each file that is held out; 0: all there is. A file has as many of "
              "them as its size is of all, or, of tails, as data.weights says")
              .in(0, int32_most),
          row("sample_prompt", &E::sample_prompt,
              "what a text that the model writes into the log begins with; \"\": none is written"),
          row("sample_tokens", &E::sample_tokens, "length of that text")
              .in(1, 100000)
              .in_units("tokens"),
          row("sample_every", &E::sample_every,
              "steps between such texts; 0: after each evaluation's step, every_steps; one follows "
              "the last step")
              .in(0, step_most)
              .in_units("steps"),
          row("sample_temperature", &E::sample_temperature,
              "of their sampling; 0: always the most likely token")
              .in(0, 1e6),
      }};
}

KeySection checkpoint_section() {
  using C = CheckpointConfig;
  const auto row = rows_of(&Deck::checkpoint);
  return {.name = "checkpoint",
          .meaning = "What a run can go on from; one is always written at the end.",
          .keys = {
              row("every_steps", &C::every_steps, "steps between checkpoints; 0: not by steps")
                  .in(0, step_most)
                  .in_units("steps"),
              row("every_minutes", &C::every_minutes, "minutes between checkpoints; 0: not by time")
                  .in(0, 1e6)
                  .in_units("minutes"),
              row("keep_last", &C::keep_last, "newest checkpoints kept; 0: all").in(0, step_most),
              row("keep_every", &C::keep_every,
                  "checkpoints at multiples of this step are kept for good; 0: none")
                  .in(0, step_most)
                  .in_units("steps"),
              row("async", &C::async,
                  "write from a copy of the state while training goes on; the copy takes memory"),
              row("on_error", &C::on_error,
                  "what the run does when a checkpoint cannot be written; without the last one it "
                  "fails"),
          }};
}

KeySection run_section() {
  using R = RunConfig;
  const auto row = rows_of(&Deck::run);
  return {
      .name = "run",
      .meaning = "The machine and the behaviour of the job.",
      .keys = {
          row("backend", &R::backend,
              "auto: cuda if a device answers, else host; ref: slow and exact; fenced: a test")
              .of({"auto", "host", "ref", "fenced", "cuda"}),
          row("threads", &R::threads, "threads of each rank")
              .in(1, 4096)
              .automatically("OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, or the cores of the rank"),
          row("exactness", &R::exactness,
              "same bits: no promise, on the same grid, or on any grid"),
          row("exact_chunk", &R::exact_chunk,
              "tokens whose gradients are added as one number when invariant; at most the "
              "context, and a divisor of context / seq")
              .in(1, 256)
              .in_units("tokens"),
          row("time_limit", &R::time_limit,
              "checkpoint and stop before that long has passed; 0: no limit")
              .as(duration)
              .in(0, 1e9),
          row("signal_grace", &R::signal_grace,
              "from a signal to its checkpoint; a step that takes longer is dropped")
              .as(duration)
              .in(0, 1e6),
          row("hang_timeout", &R::hang_timeout,
              "a rank that waits longer for others ends the job, from its start on; 0: never")
              .as(duration)
              .in(0, 1e6),
          row("log_every", &R::log_every, "steps between lines of the log; 0: none")
              .in(0, step_most)
              .in_units("steps"),
          row("trace_steps", &R::trace_steps,
              "first and last step of a Chrome trace of all queues; []: none")
              .in(1, step_most),
          row("trace_ranks", &R::trace_ranks, "ranks in that trace")
              .in(0, 1 << 20)
              .automatically("all"),
          row("tensorboard", &R::tensorboard,
              "write event files for TensorBoard into tensorboard/ of the run directory, too"),
          row("peak_tflops", &R::peak_tflops,
              "TFLOP/s that a rank's machine can do, for the utilisation of steps; 0: as the "
              "machine file says, or not known")
              .in(0, 1e6),
          row("machine", &R::machine,
              "a machine file, from which the utilisation of steps has its peak; empty: none")
              .as(path),
          row("digest_every", &R::digest_every,
              "steps between digests of every gradient, weight and moment, into digests.csv; 0: "
              "none")
              .in(0, step_most)
              .in_units("steps"),
          row("replay_every", &R::replay_every,
              "steps between those that are computed twice, to find faults of hardware; weights "
              "and moments are then checked at every step; 0: none")
              .in(0, step_most)
              .in_units("steps"),
          row("on_fault", &R::on_fault,
              "what the run does when a step that is computed twice has two results and a third "
              "decides; a changed weight or moment always ends it"),
          row("debug", &R::debug,
              "poison memory that is given back, compare the labels of collectives between ranks"),
          row("guards", &R::guards,
              "give each block of memory pages of its own between guards, which end the run "
              "where something reads or writes past a block; for debugging"),
          row("share_gpu", &R::share_gpu, "several ranks may use one GPU"),
          row("device_headroom", &R::device_headroom,
              "of a GPU's memory, free when all ranks are connected, so much is left to the "
              "libraries: code that is loaded later, NCCL's direct messages")
              .in(0, 1024)
              .in_units("GiB"),
      }};
}

}  // namespace trireme
