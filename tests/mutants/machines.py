"""Mutants of predicted times, of what machines are measured with, and of what starts ranks: name, file, right, wrong, suite."""
from suites import program, rows

TIMES = program("predict_test", "-*SearchOn*:*SearchFuzz*:Search.*")
SEARCH = program("predict_test", "*Search*")
BOUNDS = program("predict_test", "*SearchOnMachine.BoundsHold*")
RUN = program("predict_test", "Prediction.*")
LAUNCH = program("launch_test", "*")

MUTANTS = [
    # rates
    ("a size lies halfway in itself", "lib/predict/machine.cpp", "(std::log(at) - std::log(x[high - 1])) / (std::log(x[high]) - std::log(x[high - 1]))",
     "(at - x[high - 1]) / (x[high] - x[high - 1])", TIMES),
    ("what is larger than measured takes no longer", "lib/predict/machine.cpp", "inside * at / x.back()", "inside", TIMES),
    ("documents have the rates of causal attention", "lib/predict/machine.cpp", "documents ? rates_of(AttentionSpan::document)",
     "documents && false ? rates_of(AttentionSpan::document)", TIMES),
    ("a product outruns its memory", "lib/predict/machine.cpp", "std::max(computing, a.bytes / *machine.memory_bandwidth)", "computing", TIMES),
    ("a link is each rank's own", "lib/predict/machine.cpp", "         static_cast<double>(link.shared_by);", "         (1 + 0 * static_cast<double>(link.shared_by));", TIMES),
    ("any layout's rate is taken first", "lib/predict/machine.cpp", "return r.dtype == a.dtype && r.layout == layout;", "return r.dtype == a.dtype;", TIMES),
    ("TF32 is f32", "lib/predict/machine.cpp", "  if (t == DType::f32 && tf32) return m.peak_tf32;\n", "", TIMES),
    # what a step asks for
    ("a sum that is added to is read once", "lib/predict/workloads.cpp", "(o.how == Accumulate::add ? 2 : 1) * bytes_seen(o.c_MN);", "bytes_seen(o.c_MN);", TIMES),
    ("layouts of a product are swapped", "lib/predict/workloads.cpp", "return !a_rows ? MatmulLayout::tn : b_rows ? MatmulLayout::nn : MatmulLayout::nt;", "return !a_rows ? MatmulLayout::tn : b_rows ? MatmulLayout::nt : MatmulLayout::nn;", TIMES),
    ("a message's legs are near", "lib/predict/recorder.cpp", "auto& volume = close ? near : far;", "auto& volume = close || true ? near : far;", TIMES),
    ("what is sent has the type that is computed in", "lib/predict/recorder.cpp", "static_cast<double>(elements) * static_cast<double>(bytes_of(c.wire));", "static_cast<double>(elements) * static_cast<double>(bytes_of(c.type));", TIMES),
    # simulation
    ("agreement takes a round for each node", "lib/predict/simulate.cpp", "std::bit_width(static_cast<unsigned>(nodes - 1));", "nodes - 1;", TIMES),
    ("a ring has one link", "lib/predict/simulate.cpp", 'bandwidth(m.far, "far") * fewest', 'bandwidth(m.far, "far")', TIMES),
    ("a bubble is the last stage's", "lib/predict/simulate.cpp", "l.bubble += k.bubble / static_cast<double>(s.kinds.size());", "l.bubble = k.bubble;", TIMES),
    ("a processor copies nothing", "lib/predict/simulate_host.cpp", '      spend(r, t.comm, bytes / share_of(machine_, machine_.near, "near"));\n', "", TIMES),
    ("a stage that waits for another waits for messages", "lib/predict/simulate_host.cpp", "      r.times.bubble += begun - begin;\n    else", "      r.exposed(t.comm) += begun - begin;\n    else", TIMES),
    ("what a queue waits for takes no time", "lib/predict/simulate_device.cpp", "        s.now = std::max(s.now, it->second.at);\n", "", TIMES),
    ("a device never waits for its host", "lib/predict/simulate_device.cpp", "r.host += launch_;\n        [[fallthrough]];", "r.host += 0 * launch_;\n        [[fallthrough]];", TIMES),
    # search
    ("a frozen head counts", "lib/predict/search_bounds.cpp", "c.grid.pipe > 1 || !input_.setup.freeze.empty()", "c.grid.pipe > 1", BOUNDS),
    ("blocks that freeze count as trained", "lib/predict/search_bounds.cpp", "      if (matches(rule.pattern, p.name)) return false;\n", "", BOUNDS),
    ("the lowest block that is trained has a gradient of its input", "lib/predict/search_bounds.cpp", "(trained && trained_before)", "trained", BOUNDS),
    ("bounds divide blocks as if there were no adapters", "lib/predict/search_bounds.cpp", "make_spec(model, input_.setup.adapter)", "make_spec(model)", BOUNDS),
    ("small models have the adapters of block 3", "lib/predict/search.cpp", "(adapter.rank == 0 || std::ranges::none_of(patterns, names_blocks))", "true", SEARCH),
    ("weights of f32 have masters beside them", "lib/predict/search_bounds.cpp", "const double masters = compute < 4 ? 4 : 0;", "const double masters = 4;", SEARCH),
    ("the last way to run is the best", "lib/predict/search.cpp", "best.insert(std::ranges::upper_bound(best, found.seconds, {}, &Trial::seconds), found);", "best.insert(best.begin(), found);", SEARCH),
    ("what does not fit is simulated and shown", "lib/predict/search.cpp", "return memory_ && static_cast<double>(found.needed()) > *memory_;", "return false;", SEARCH),
    ("a long step is its first microbatches", "lib/predict/trial.cpp", "return more + (more - few) * steps;", "return more + 0 * (more - few) * steps;", SEARCH),
    ("what saves costs", "lib/predict/search_text.cpp", "(difference < 0 ? saves : costs).push_back(text);", "(difference < 0 ? costs : saves).push_back(text);", TIMES),
    ("zero.stage is that of the other cadence", "lib/predict/choices.cpp", "c.reduce == ZeroCadence::step ? 1 : 2;", "c.reduce == ZeroCadence::step ? 2 : 1;", TIMES),
    ("a change from one stage of ZeRO keeps its cadences", "lib/predict/choices.cpp", "set.cadences = set.cadences || from.zero_stage == 3;", "", program("deck_test", "*SearchLines*")),
    ("a copy for checkpoints leaves a rank's padding out", "lib/train/snapshot.cpp", "const auto own = store.sharding().own(segment).count();",
     "std::int64_t own = 0; for (const auto& slot : segment.slots) own += store.own(slot.param).count();", program("plan_test", "RankKinds.*")),
    ("microbatches of all sizes are tried", "lib/predict/choices.cpp", "if (!power_of_two && microbatch != samples) continue;", "if (!power_of_two) continue;", TIMES),
    # what is reported
    ("minutes between checkpoints are seconds", "lib/predict/prediction.cpp", "std::ceil(60 * run.checkpoint.every_minutes / step_seconds)", "std::ceil(run.checkpoint.every_minutes / step_seconds)", RUN),
    ("the checkpoint at the end is not counted", "lib/predict/prediction.cpp", "return 1 + static_cast<std::int64_t>", "return 0 + static_cast<std::int64_t>", RUN),
    ("an hour has 60 seconds", "lib/predict/prediction.cpp", 'fmt::format("{:.1f} h", seconds / 3600)', 'fmt::format("{:.1f} h", seconds / 60)', TIMES),
    ("utilisation is of one rank's peak", "lib/predict/prediction.cpp", "p.tokens_a_second / (*peak * in.grid.ranks());", "p.tokens_a_second / *peak;", RUN),
    ("a run takes as long as a step", "lib/predict/prediction.cpp", "  p.run = steps;\n", "  p.run = p.step;\n", RUN),
    # measuring
    ("the most disturbed call counts", "lib/calibrate/stopwatch.cpp", "double sum = std::ranges::min(times);", "double sum = std::ranges::max(times);", program("calibrate_test", "*")),
    ("a batch counts as a call", "lib/calibrate/stopwatch.cpp", "return seconds_since(begin) / calls;", "return seconds_since(begin);", program("calibrate_test", "*")),
    ("operands lie in caches", "lib/calibrate/operands.cpp", "std::clamp<std::size_t>(wanted, 2, most)", "std::clamp<std::size_t>(wanted, 1, 1)", program("calibrate_test", "*")),
    ("nodes of other sizes are alike", "lib/calibrate/calibrate.cpp", "if (sizes[0] != -sizes[1])", "if (sizes[0] == -sizes[1] + 100)", program("app_test", "CalibrateRun.*")),
    ("a disk's file stays", "lib/calibrate/calibrate.cpp", "const Draft draft(path);  // never published", "const Draft& draft = *new Draft(path);", program("app_test", "CalibrateRun.*")),
    # ranks
    ("tasks of an array are one job", "lib/launch/batch_job.cpp", 'return array + "_" + given("SLURM_ARRAY_TASK_ID");', "return array;", LAUNCH),
    ("a job's first restart is its start", "lib/launch/batch_job.cpp", 'given("SLURM_RESTART_COUNT")', 'given("SLURM_RESTARTS")', LAUNCH),
    ("clocks differ the other way", "lib/launch/clocks.cpp", "low + (high - low) / 2;", "-low - (high - low) / 2;", LAUNCH),
    ("a rank may leave before another enters", "lib/launch/clocks.cpp", "low = std::max(low, theirs[i].entered - mine[i].left);", "low = std::max(low, theirs[i].left - mine[i].entered);", LAUNCH),
    ("a device without a name is shared", "lib/launch/devices.cpp", "    if (identities[a].empty()) continue;\n", "", LAUNCH),
    ("the last rank may have another backend", "lib/launch/devices.cpp", "for (std::size_t r = 1; r < names.size(); ++r)", "for (std::size_t r = 1; r + 1 < names.size(); ++r)", LAUNCH),
    ("ranks that share processors use them all", "lib/launch/threads.cpp", "std::ranges::count(mine, 'x') / sharing));", "std::ranges::count(mine, 'x') / (0 * sharing + 1)));", LAUNCH),
    ("ranks with the same processors are bound badly", "lib/launch/threads.cpp", "if (a != b && overlap(a, b)) return true;", "if (&a != &b && overlap(a, b)) return true;", LAUNCH),
    ("what nobody reads is not waited for", "lib/launch/drain.cpp", "if (std::chrono::steady_clock::now() > end) return false;", "return true;", LAUNCH),
]
