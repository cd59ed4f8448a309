"""Mutants of comparisons and of a run's report: name, file, right, wrong, suite."""
from suites import program

NUMBERS = program("compare_test", "-*RoundedGradients*")
PAGE = program("report_test", "*")

MUTANTS = [
    # comparisons
    ("numbers of two signs are close", "lib/compare/tally.cpp", "x < 0 ? std::numeric_limits<Bits>::min() - x : x;", "x < 0 ? -x : x;", NUMBERS),
    ("the first of two pieces is the last", "lib/compare/tally.cpp", "if (first < 0 || at < first) first = at;", "first = at;", NUMBERS),
    ("an index counts from its piece", "lib/compare/tally.cpp", "const auto at = begin + static_cast<std::int64_t>(i);", "const auto at = static_cast<std::int64_t>(i);", NUMBERS),
    ("one NaN is another", "lib/compare/tally.cpp", "      ++nans;\n", "", NUMBERS),
    ("a tail is that of one side", "lib/compare/rounding.cpp", "return std::clamp(1 - inside, 0.0, 1.0);", "return std::clamp((1 - inside) / 2, 0.0, 1.0);", NUMBERS),
    ("a factor hides among elements", "lib/compare/rounding.cpp", "student_tails(j.projection, spread.replays()));", "student_tails(j.size, spread.replays()));", NUMBERS),
    ("each of many tests may fail as often as one", "lib/compare/rounding.cpp", "j.chance * 2 * static_cast<double>(tests) > false_alarm", "j.chance * 2 > false_alarm", NUMBERS),
    ("learning rates are not compared", "lib/compare/tables.cpp", '        add_if_other(c, "lr", x.lr, y.lr);\n', "", NUMBERS),
    ("unknown numbers of trained tokens are compared", "lib/compare/tables.cpp", "if (known && x.", "if (x.", NUMBERS),
    ("steps are compared as they come", "lib/compare/tables.cpp", "++(i->step < j->step ? i : j);", "++(i->step < j->step ? j : i);", NUMBERS),
    ("a gradient that A lacks B lacks", "lib/compare/tables.cpp", '!x[p] ? "A" : !y[p] ? "B" : ""', '!x[p] ? "B" : !y[p] ? "A" : ""', NUMBERS),
    ("a digest's row of another run stays", "lib/compare/tables.cpp", "rows.insert_or_assign(step, std::move(row));", "rows.emplace(step, std::move(row));", NUMBERS),
    ("a tied head is of the last stage", "lib/compare/tensors.cpp", "if (spec.head_unit != spec.table_unit) stages", "stages", NUMBERS),
    # the page
    ("the first value of a long series is lost", "lib/report/thin.cpp", "std::vector<SeriesPoint> kept = {finite.front()};", "std::vector<SeriesPoint> kept = {finite[1]};", PAGE),
    ("low peaks of a long series are lost", "lib/report/thin.cpp", "    kept.push_back(*low);\n", "", PAGE),
    ("what a restart makes again stays", "lib/report/log_events.cpp", "  cut(e.skipped);\n", "", PAGE),
    ("a restart forgets its own checkpoint", "lib/report/log_events.cpp", "  cut(e.checkpoints);\n",
     "  e.checkpoints.erase(e.checkpoints.lower_bound(step), e.checkpoints.end());\n", PAGE),
    ("a trace's bars are in microseconds", "lib/report/trace_spans.cpp", "(span.begin - origin) * 1e-3,", "(span.begin - origin),", PAGE),
    ("bars of all steps are of the last", "lib/report/trace_spans.cpp", " || span.begin < w->second.first || span.end > w->second.second) continue;", ") continue;", PAGE),
    ("short bars are shown first", "lib/report/trace_spans.cpp", "std::ranges::stable_sort(traced.bars, std::greater(),", "std::ranges::stable_sort(traced.bars, std::less(),", PAGE),
    ("a chart of the rate is one of the norm", "lib/report/run_report.cpp", "column(rows, &HistoryRow::lr)", "column(rows, &HistoryRow::grad_norm)", PAGE),
    ("a chart's tokens are steps", "lib/report/run_report.cpp", "points.push_back({r.step, r.tokens, std::invoke(member, r)});", "points.push_back({r.step, r.step, std::invoke(member, r)});", PAGE),
    ("a run's step is the outcome's", "lib/report/run_report.cpp", 'std::max(json_["step"].get<std::int64_t>(), rows.back().step);', 'json_["step"].get<std::int64_t>();', PAGE),
    ("steps that are not finite are no skipped ones", "lib/report/run_report.cpp", 'events.skipped.try_emplace(step, "it is not finite");', "(void)step;", PAGE),
    ("no checkpoint was kept", "lib/report/run_report.cpp", "std::ranges::count(kept, step) > 0", "std::ranges::count(kept, step) > 1", PAGE),
    ("data ends its element", "lib/report/page.cpp", "if (c == '<' || c == '>' || c == '&')", "if (c == '>' || c == '&')", PAGE),
]
