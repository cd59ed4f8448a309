// Where it runs: the grid, sharding, checkpoints, the job.
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

DeckSection parallel_section() {
  using P = ParallelConfig;
  const auto section = section_of(&Deck::parallel);
  const auto plain = [&](auto field) { return member(section, field); };
  const std::vector<std::string> schedules(schedule_names.begin(), schedule_names.end());
  return {.name = "parallel",
          .meaning = "The grid of ranks: pipe * data * seq, seq fastest.",
          .keys = {
              KeyRow("pipe", integer, plain(&P::pipe), "pipeline stages")
                  .in(1, 65536)
                  .in_units("ranks"),
              KeyRow("data", integer, automatic_member(section, &P::data), "data ranks")
                  .in(1, 1 << 20)
                  .in_units("ranks")
                  .automatically("the number of ranks / (pipe * seq)"),
              KeyRow("seq", integer, plain(&P::seq), "ranks that share each sample's tokens")
                  .in(1, 65536)
                  .in_units("ranks"),
              KeyRow("stage_layers", integers, automatic_member(section, &P::stage_layers),
                     "transformer blocks of each stage; with chunks of each chunk, in the order "
                     "of the model")
                  .in(0, 10000)
                  .automatically("balanced by cost"),
              KeyRow("schedule", choice, named_member(section, &P::schedule, schedules),
                     "the order of a pipeline's work: one forward, one backward; the same for "
                     "several chunks of each stage, which idles less and sends more; with "
                     "weight gradients behind the gradients of inputs (ZB-H1), which idles less "
                     "and keeps more; or so with two chunks of each stage, the first from the "
                     "model's front and the second from its back (ZB-V), which idles least, sends "
                     "twice as much and keeps on all stages what the first keeps with \"1f1b\"")
                  .of(schedules),
              KeyRow("chunks", integer, plain(&P::chunks),
                     "parts of the model on each stage: 2 or more with parallel.schedule = "
                     "\"interleaved\", 2 with \"zbv\"")
                  .in(1, 64),
          }};
}

DeckSection zero_section() {
  using Z = ZeroConfig;
  const auto section = section_of(&Deck::zero);
  const auto plain = [&](auto field) { return member(section, field); };
  const std::vector<std::string> cadences = {"microbatch", "step"};
  return {
      .name = "zero",
      .meaning = "Sharding of weights, gradients and optimizer state over data x seq.",
      .keys = {
          KeyRow("stage", integer, plain(&Z::stage),
                 "sharded: 0 nothing, 1 optimizer, 2 also gradients, 3 also weights")
              .in(0, 3),
          KeyRow("shard", integer, worded_member(section, &Z::shard, "node", a_copy_each_node),
                 "ranks that share one copy; groups of that many are replicas")
              .in(1, 1 << 20)
              .in_units("ranks")
              .automatically("data * seq")
              .or_word("node", "the ranks of a stage on one node; nodes are replicas"),
          KeyRow("gather", choice, named_member(section, &Z::gather, cadences),
                 "how often weights are gathered, at stage 3")
              .of(cadences),
          KeyRow("reduce", choice, named_member(section, &Z::reduce, cadences),
                 "how often gradients are reduced, at stage 3")
              .of(cadences),
          KeyRow("prefetch", integer, plain(&Z::prefetch), "gathers in flight ahead of their use")
              .in(0, 64),
          KeyRow("scatters", integer, plain(&Z::scatters), "reduce-scatters in flight").in(1, 64),
          KeyRow("detect_freeze", flag, plain(&Z::detect_freeze),
                 "check at each step whether the set of trainable parameters has changed"),
      }};
}

DeckSection freeze_section() {
  using F = FreezeRule;
  const auto section = entry_of(&Deck::freeze);
  const auto plain = [&](auto field) { return member(section, field); };
  const std::vector<std::string> moments = {"fresh", "keep"};
  return {
      .name = "freeze",
      .meaning = "Parameters that are not trained in some steps; one [[freeze]] a rule.",
      .repeated = true,
      .keys = {
          KeyRow("pattern", text, plain(&F::pattern),
                 "parameters by name; * and ? stand for any text")
              .like("\"blocks.0.*\"")
              .needed(),
          KeyRow("from_step", integer, plain(&F::from_step), "first frozen step").in(0, step_most),
          KeyRow("to_step", integer, plain(&F::to_step),
                 "first step trained again; 0: frozen to the end")
              .in(0, step_most),
          KeyRow("moments", choice, named_member(section, &F::moments, moments),
                 "the optimizer's arrays after thawing: zero, or as they were before; where rules "
                 "overlap or follow without a gap, the first decides, the last in the deck of "
                 "those that begin together")
              .of(moments),
      }};
}

DeckSection evaluate_section() {
  using E = EvaluateConfig;
  const auto plain = [](auto field) { return member(section_of(&Deck::evaluate), field); };
  return {
      .name = "evaluate",
      .meaning = "Loss on data.validation, into evaluation.csv.",
      .keys = {
          KeyRow("every_steps", integer, plain(&E::every_steps),
                 "steps between evaluations while training; 0: none")
              .in(0, step_most)
              .in_units("steps"),
          KeyRow("batches", integer, plain(&E::batches),
                 "length of one evaluation, in batches of train.batch samples, which are spread "
                 "evenly over each file that is held out; 0: all there is. A file has as many of "
                 "them as its size is of all, or, of tails, as data.weights says")
              .in(0, int32_most),
          KeyRow(
              "sample_prompt", text, plain(&E::sample_prompt),
              "what a text that the model writes into the log begins with; \"\": none is written"),
          KeyRow("sample_tokens", integer, plain(&E::sample_tokens), "length of that text")
              .in(1, 100000)
              .in_units("tokens"),
          KeyRow("sample_every", integer, plain(&E::sample_every),
                 "steps between such texts; 0: after each evaluation's step, every_steps")
              .in(0, step_most)
              .in_units("steps"),
          KeyRow("sample_temperature", real, plain(&E::sample_temperature),
                 "of their sampling; 0: always the most likely token")
              .in(0, 1e6),
      }};
}

DeckSection checkpoint_section() {
  using C = CheckpointConfig;
  const auto section = section_of(&Deck::checkpoint);
  const auto plain = [&](auto field) { return member(section, field); };
  const std::vector<std::string> outcomes = {"stop", "continue"};
  return {
      .name = "checkpoint",
      .meaning = "What a run can go on from; one is always written at the end.",
      .keys = {
          KeyRow("every_steps", integer, plain(&C::every_steps),
                 "steps between checkpoints; 0: not by steps")
              .in(0, step_most)
              .in_units("steps"),
          KeyRow("every_minutes", real, plain(&C::every_minutes),
                 "minutes between checkpoints; 0: not by time")
              .in(0, 1e6)
              .in_units("minutes"),
          KeyRow("keep_last", integer, plain(&C::keep_last), "newest checkpoints kept; 0: all")
              .in(0, step_most),
          KeyRow("keep_every", integer, plain(&C::keep_every),
                 "checkpoints at multiples of this step are kept for good; 0: none")
              .in(0, step_most)
              .in_units("steps"),
          KeyRow("async", flag, plain(&C::async),
                 "write from a copy of the state while training goes on; the copy takes memory"),
          KeyRow("on_error", choice, named_member(section, &C::on_error, outcomes),
                 "what the run does when a checkpoint cannot be written")
              .of(outcomes),
      }};
}

DeckSection run_section() {
  using R = RunConfig;
  const auto section = section_of(&Deck::run);
  const auto plain = [&](auto field) { return member(section, field); };
  const auto automatic = [&](auto field) { return automatic_member(section, field); };
  const std::vector<std::string> faults = {"stop", "continue"};
  const std::vector<std::string> grades = {"fast", "repeatable", "invariant"};
  return {
      .name = "run",
      .meaning = "The machine and the behaviour of the job.",
      .keys = {
          KeyRow("backend", choice, plain(&R::backend),
                 "auto: cuda if a device answers, else host; ref: slow and exact; fenced: a test")
              .of({"auto", "host", "ref", "fenced", "cuda"}),
          KeyRow("threads", integer, automatic(&R::threads), "threads of each rank")
              .in(1, 4096)
              .automatically("OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, or the cores of the rank"),
          KeyRow("exactness", choice, named_member(section, &R::exactness, grades),
                 "same bits: no promise, on the same grid, or on any grid")
              .of(grades),
          KeyRow("exact_chunk", integer, plain(&R::exact_chunk),
                 "tokens whose gradients are added as one number when invariant; at most the "
                 "context, and a divisor of context / seq")
              .in(1, 256)
              .in_units("tokens"),
          KeyRow("time_limit", duration, plain(&R::time_limit),
                 "checkpoint and stop before that long has passed; 0: no limit")
              .in(0, 1e9),
          KeyRow("signal_grace", duration, plain(&R::signal_grace),
                 "from a signal to its checkpoint; a step that takes longer is dropped")
              .in(0, 1e6),
          KeyRow("hang_timeout", duration, plain(&R::hang_timeout),
                 "a rank that waits longer for others ends the job, from its start on; 0: never")
              .in(0, 1e6),
          KeyRow("log_every", integer, plain(&R::log_every),
                 "steps between lines of the log; 0: none")
              .in(0, step_most)
              .in_units("steps"),
          KeyRow("trace_steps", integers, plain(&R::trace_steps),
                 "first and last step of a Chrome trace of all queues; []: none")
              .in(1, step_most),
          KeyRow("trace_ranks", integers, automatic(&R::trace_ranks), "ranks in that trace")
              .in(0, 1 << 20)
              .automatically("all"),
          KeyRow("tensorboard", flag, plain(&R::tensorboard),
                 "write event files for TensorBoard into tensorboard/ of the run directory, too"),
          KeyRow("peak_tflops", real, plain(&R::peak_tflops),
                 "TFLOP/s that a rank's machine can do, for the utilisation of steps; 0: as the "
                 "machine file says, or not known")
              .in(0, 1e6),
          KeyRow("machine", path, plain(&R::machine),
                 "a machine file, from which the utilisation of steps has its peak; empty: none"),
          KeyRow("digest_every", integer, plain(&R::digest_every),
                 "steps between digests of every gradient, weight and moment, into digests.csv; 0: "
                 "none")
              .in(0, step_most)
              .in_units("steps"),
          KeyRow("replay_every", integer, plain(&R::replay_every),
                 "steps between those that are computed twice, to find faults of hardware; weights "
                 "and moments are then checked at every step; 0: none")
              .in(0, step_most)
              .in_units("steps"),
          KeyRow("on_fault", choice, named_member(section, &R::on_fault, faults),
                 "what the run does when a step that is computed twice has two results and a third "
                 "decides; a changed weight or moment always ends it")
              .of(faults),
          KeyRow(
              "debug", flag, plain(&R::debug),
              "poison memory that is given back, compare the labels of collectives between ranks"),
          KeyRow("guards", flag, plain(&R::guards),
                 "give each block of memory pages of its own between guards, which end the run "
                 "where something reads or writes past a block; for debugging"),
          KeyRow("share_gpu", flag, plain(&R::share_gpu), "several ranks may use one GPU"),
          KeyRow("device_headroom", real, plain(&R::device_headroom),
                 "of a GPU's memory, free when all ranks are connected, so much is left to the "
                 "libraries: code that is loaded later, NCCL's direct messages")
              .in(0, 1024)
              .in_units("GiB"),
      }};
}

}  // namespace trireme
