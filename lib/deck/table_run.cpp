// Keys for where a run computes: the grid, sharding, checkpoints and the job.
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

KeySection parallel_section() {
  using P = ParallelConfig;
  const auto row = rows_of(&Deck::parallel);
  return {.name = "parallel",
          .meaning =
              "The grid of ranks: pipe * data * seq ranks in total, numbered along seq first, then "
              "data, then pipe.",
          .keys = {
              row("pipe", &P::pipe, "Number of pipeline stages (pipeline parallelism)")
                  .in(1, 10000)
                  .in_units("ranks"),
              row("data", &P::data, "Number of data-parallel ranks")
                  .in(1, 1 << 20)
                  .in_units("ranks")
                  .automatically("number of ranks / (pipe * seq)"),
              row("expert", &P::expert,
                  "Number of ranks that divide the experts of a pipeline stage among themselves "
                  "(expert parallelism). These ranks send each other the tokens for their experts. "
                  "Must divide parallel.data * parallel.seq. 1 disables expert parallelism: each "
                  "rank computes all experts for its own tokens")
                  .in(1, 65536)
                  .in_units("ranks"),
              row("expert_tokens", &P::expert_tokens,
                  "Maximum number of tokens that a rank receives for its experts in one round of "
                  "expert parallelism. A token counts once for each expert that it chose. Smaller "
                  "values need less memory, but more rounds")
                  .in(1, row_most)
                  .automatically("1.25 times the number under an even load"),
              row("seq", &P::seq,
                  "Number of ranks that each sample is split across (sequence parallelism). Must "
                  "divide model.context. Up to model.heads ranks divide attention heads (Ulysses). "
                  "If there are more ranks, groups of ranks also divide positions (ring attention)")
                  .in(1, 65536)
                  .in_units("ranks"),
              row("stage_layers", &P::stage_layers,
                  "Number of transformer blocks in each pipeline stage, in model order. If chunks "
                  "is above 1, give the number in each chunk instead")
                  .in(1, 10000)
                  .automatically("balanced by cost"),
              row("schedule", &P::schedule,
                  "Order of forward and backward passes in the pipeline. All others have less idle "
                  "time than 1f1b. interleaved and zbv (ZB-V) send more messages, and zero-bubble "
                  "(ZB-H1) and zbv need more memory. See docs/planning.md"),
              row("chunks", &P::chunks,
                  "Number of model chunks on each pipeline stage. With schedule = \"interleaved\", "
                  "at least 2 is required. With \"zbv\", the number must be 2. With other "
                  "schedules, it must be 1")
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
  return {
      .name = "zero",
      .meaning =
          "ZeRO: weights, gradients and optimizer state are sharded over the data * seq ranks of "
          "each pipeline stage.",
      .keys = {
          row("stage", &Z::stage,
              "ZeRO stage. 0: nothing is sharded. 1: optimizer state. 2: also gradients. 3: also "
              "weights. Higher stages need less memory")
              .in(0, 3),
          KeyRow("shard", integer, shard,
                 "Number of ranks that share one copy of the sharded state. Must divide data * "
                 "seq. Each group of this many ranks holds a full copy")
              .in(1, 1 << 20)
              .in_units("ranks")
              .automatically("data * seq")
              .or_word("node",
                       "the ranks of a pipeline stage on one node, so that no copy is split across "
                       "nodes"),
          row("gather", &Z::gather,
              "How often weights are all-gathered if stage = 3. microbatch: for each micro-batch. "
              "step: once per step, which communicates less but needs more memory"),
          row("reduce", &Z::reduce,
              "How often gradients are reduced if stage = 3. microbatch: for each micro-batch. "
              "step: once per step, which communicates less but needs more memory"),
          row("gather_type", &Z::gather_type,
              "Type in which weights are all-gathered for training. fp8: weights whose products "
              "are in fp8 are sent as e4m3 numbers, with half the bytes of bf16. It changes no "
              "product and requires precision.products = \"fp8\""),
          row("prefetch", &Z::prefetch,
              "Maximum number of weight all-gathers that run ahead of the computation. Larger "
              "values hide more communication, but need more memory")
              .in(0, 64),
          row("scatters", &Z::scatters,
              "Maximum number of gradient reduce-scatters in flight. Larger values hide more "
              "communication, but need more memory")
              .in(1, 64),
          row("detect_freeze", &Z::detect_freeze,
              "For programs that use Trireme as a library: whether to check at the start of each "
              "step if the program has changed which parameters are trained. [[freeze]] rules "
              "apply even without this check"),
      }};
}

KeySection freeze_section() {
  using F = FreezeRule;
  const auto row = rows_of(&Deck::freeze);
  return repeated(
      &Deck::freeze, "freeze",
      "Freezes parameters in some steps. Write one [[freeze]] section per rule. Steps count from "
      "0 in these rules and in [[phase]] sections, and from 1 in all other keys.",
      {
          row("pattern", &F::pattern, "Names of the parameters to freeze, with wildcards * and ?")
              .like("\"blocks.0.*\"")
              .needed(),
          row("from_step", &F::from_step,
              "First frozen step, counted from 0. Step 0 is step 1 of history.csv")
              .in(0, step_most),
          row("to_step", &F::to_step,
              "First step in which the parameters are trained again, counted from 0. 0 freezes "
              "them to the end of the run. Steps from_step + 1 to to_step of history.csv are "
              "frozen")
              .in(0, step_most),
          row("moments", &F::moments,
              "Optimizer state of the parameters when they are trained again. fresh: zero. keep: "
              "as before the freeze. If several rules freeze a parameter without a gap between "
              "them, the rule with the smallest from_step decides. If several of them have this "
              "from_step, the last one in the deck decides"),
      });
}

KeySection evaluate_section() {
  using E = EvaluateConfig;
  const auto row = rows_of(&Deck::evaluate);
  return {
      .name = "evaluate",
      .meaning = "Evaluation on data.validation and on the [[validation]] sets, and sample texts.",
      .keys =
          {
              row("every_steps", &E::every_steps,
                  "Steps between evaluations. 0 means no evaluations during training. The last "
                  "step is always evaluated")
                  .in(0, step_most)
                  .in_units("steps"),
              row("batches", &E::batches,
                  "Number of batches in each evaluation. A batch has train.batch samples. Samples "
                  "are spread evenly over each validation file. The share of each file is "
                  "proportional to its size. If data.validation is a fraction, data.weights gives "
                  "the shares instead. 0 evaluates all validation data")
                  .in(0, int32_most),
              row("best_by", &E::best_by,
                  "Metric that ranks evaluations. loss: the lowest is best. accuracy and margin, "
                  "of preference pairs: the highest is best. Used by checkpoint.keep_best, "
                  "patience and the option --best"),
              row("best_set", &E::best_set,
                  "Name of the [[validation]] set whose evaluations are ranked. mean ranks the "
                  "weighted mean of the sets (validation.weight)")
                  .automatically("data.validation, or else the first [[validation]] set"),
              row("patience", &E::patience,
                  "Number of evaluations in a row without improvement after which the run ends "
                  "(early stopping). 0 disables early stopping")
                  .in(0, int32_most),
              row("ema", &E::ema,
                  "Whether evaluations and sample texts during training use the average of "
                  "train.ema in place of the weights. Needs train.ema"),
              row("sample_prompt", &E::sample_prompt,
                  "Prompt that the model continues from time to time during training, to show its "
                  "progress in the log. \"\" disables these sample texts"),
              row("sample_tokens", &E::sample_tokens,
                  "Number of tokens to generate for each sample text")
                  .in(1, 100000)
                  .in_units("tokens"),
              row("sample_every", &E::sample_every,
                  "Steps between sample texts. 0 uses the value of every_steps. A sample text is "
                  "always generated after the last step")
                  .in(0, step_most)
                  .in_units("steps"),
              row("sample_temperature", &E::sample_temperature,
                  "Sampling temperature for sample texts. 0 always chooses the most likely token")
                  .in(0, 1e6),
          },
      .other_names = {"evaluation", "eval"}};
}

KeySection checkpoint_section() {
  using C = CheckpointConfig;
  const auto row = rows_of(&Deck::checkpoint);
  return {.name = "checkpoint",
          .meaning =
              "When checkpoints are written and which are kept. A checkpoint is always written at "
              "the end of the run.",
          .keys = {
              row("every_steps", &C::every_steps,
                  "Steps between checkpoints. 0 means no checkpoints by step count")
                  .in(0, step_most)
                  .in_units("steps"),
              row("every_minutes", &C::every_minutes,
                  "Minutes between checkpoints. 0 means no checkpoints by time")
                  .in(0, 1e6)
                  .in_units("minutes"),
              row("keep_last", &C::keep_last,
                  "Number of newest checkpoints to keep. 0 keeps all. Checkpoints at the points of "
                  "schedule.decay_end_steps are kept in addition")
                  .in(0, step_most),
              row("keep_best", &C::keep_best,
                  "Number of checkpoints with the best evaluations to keep. They may be among the "
                  "newest ones. evaluate.best_by and evaluate.best_set rank them. 0 keeps none")
                  .in(0, step_most),
              row("keep_every", &C::keep_every,
                  "Checkpoints at multiples of this number of steps are kept forever, in addition "
                  "to the newest ones. 0 keeps no additional checkpoints")
                  .in(0, step_most)
                  .in_units("steps"),
              row("async", &C::async,
                  "Whether to write checkpoints while training continues. This needs memory for a "
                  "copy of the training state"),
              row("on_error", &C::on_error,
                  "What the run does if a checkpoint cannot be written. stop: fail. continue: "
                  "train on. If the last checkpoint cannot be written, the run always fails"),
              row("memory_every", &C::memory_every,
                  "Steps between memory copies, which are copies of the training state in the "
                  "memory of the nodes. With several nodes, each shard is on two of them. If "
                  "processes or a node fail, `trireme rescue` makes a checkpoint from a memory "
                  "copy. 0 makes none")
                  .in(0, step_most)
                  .in_units("steps"),
          }};
}

KeySection run_section() {
  using R = RunConfig;
  const auto row = rows_of(&Deck::run);
  return {.name = "run",
          .meaning = "Backend, reproducibility, time limits, logging and debugging.",
          .keys = {
              row("backend", &R::backend,
                  "Compute backend. auto: cuda if a GPU is available, otherwise host. If the job "
                  "has a GPU that cannot be used, auto fails. host: CPU. ref: slow reference "
                  "implementation on the CPU, which also supports f64. fenced: CPU backend that "
                  "imitates the memory and queues of a GPU, for tests")
                  .of({"auto", "host", "ref", "fenced", "cuda"}),
              row("threads", &R::threads, "Number of CPU threads per rank")
                  .in(1, 4096)
                  .automatically(
                      "OMP_NUM_THREADS or, if this variable is not set, SLURM_CPUS_PER_TASK. If "
                      "neither is set, the number of cores available to the rank"),
              row("exactness", &R::exactness,
                  "Which runs are guaranteed to give bit-identical results. fast: none. "
                  "repeatable: runs with the same grid, number of threads and kind of machine. "
                  "invariant: runs with any grid, on CPU backends only"),
              row("exact_chunk", &R::exact_chunk,
                  "For exactness = \"invariant\": number of tokens whose gradients are summed as "
                  "one unit. Must divide model.context / parallel.seq. If the value is above "
                  "model.context, model.context is used")
                  .in(1, 256)
                  .in_units("tokens"),
              row("time_limit", &R::time_limit,
                  "Maximum duration of the run in seconds. The run saves a checkpoint and stops "
                  "before this time has passed. 0 means no limit")
                  .as(duration)
                  .in(0, 1e9),
              row("signal_grace", &R::signal_grace,
                  "Maximum time in seconds from a stop signal to the end of the checkpoint that it "
                  "triggers. If the current step would take longer, the run drops the step between "
                  "two micro-batches. With objective = \"tokens\", a step can be dropped only if "
                  "it has at least pipe + 2 micro-batches (zbv: 2 * pipe + 1). With other "
                  "objectives, every step can be dropped")
                  .as(duration)
                  .in(0, 1e6),
              row("hang_timeout", &R::hang_timeout,
                  "Maximum time in seconds that a rank waits for other ranks or for its GPU. After "
                  "this time the job ends with an error. 0 means no limit")
                  .as(duration)
                  .in(0, 1e6),
              row("log_every", &R::log_every,
                  "Steps between progress lines in the log. 0 disables them")
                  .in(0, step_most)
                  .in_units("steps"),
              row("trace_steps", &R::trace_steps,
                  "First and last step to record in a Chrome trace, such as [10, 12]. [] disables "
                  "tracing")
                  .in(1, step_most),
              row("trace_ranks", &R::trace_ranks, "Ranks to record in the trace")
                  .in(0, 1 << 20)
                  .automatically("all ranks"),
              row("tensorboard", &R::tensorboard,
                  "Whether to also write event files for TensorBoard, to the folder tensorboard/ "
                  "in the run directory"),
              row("peak_tflops", &R::peak_tflops,
                  "Peak TFLOP/s of a rank's hardware, used to compute model FLOPs utilization "
                  "(mfu). If 0, the peak in the file run.machine is used, if there is one")
                  .in(0, 1e6),
              row("machine", &R::machine,
                  "Machine file with the peak FLOP/s used to compute model FLOPs utilization "
                  "(mfu). \"\" means none")
                  .as(path),
              row("digest_every", &R::digest_every,
                  "Steps between rows of digests.csv, which contains checksums of all gradients, "
                  "weights and optimizer moments. 0 disables it")
                  .in(0, step_most)
                  .in_units("steps"),
              row("replay_every", &R::replay_every,
                  "Interval in steps at which a step is computed twice, to detect hardware faults. "
                  "If this key is set, weights and optimizer moments in memory are also verified "
                  "in every step. 0 disables both checks")
                  .in(0, step_most)
                  .in_units("steps"),
              row("on_fault", &R::on_fault,
                  "What the run does if the two computations of a step differ and a third one "
                  "confirms one of them. stop: save a checkpoint and fail. continue: train on. If "
                  "weights or moments in memory have changed, the run always fails"),
              row("debug", &R::debug,
                  "Whether to fill freed memory with invalid values and check that all ranks call "
                  "the same collectives. For debugging"),
              row("guards", &R::guards,
                  "Whether to surround each block of memory with inaccessible pages, so that an "
                  "access beyond its ends stops the run. For debugging"),
              row("share_gpu", &R::share_gpu,
                  "Whether several ranks may use the same GPU. Messages between GPUs then pass "
                  "through host memory"),
              row("device_headroom", &R::device_headroom,
                  "GPU memory in GiB that Trireme does not use, so that libraries can use it. "
                  "Libraries need memory for NCCL buffers and for code that is loaded later. "
                  "Trireme measures the free memory after all ranks have connected")
                  .in(0, 1024)
                  .in_units("GiB"),
          }};
}

}  // namespace trireme
