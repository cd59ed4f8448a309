#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/counted.hpp"
#include "lib/base/sizes.hpp"
#include "lib/plan/plan.hpp"
#include "lib/plan/rank_kinds.hpp"
#include "lib/run/saving.hpp"

namespace trireme {

// A table with one column for each planned rank. It is divided into groups of columns that fit a
// terminal.
class RankTable {
 public:
  explicit RankTable(std::size_t columns) : columns_(columns) {}
  void row(std::string_view what, std::vector<std::string> cells) {
    rows_.emplace_back(std::string(what), std::move(cells));
  }
  std::string text() const {
    constexpr std::size_t side_by_side = 6;
    std::string out;
    for (std::size_t first = 0; first < columns_; first += side_by_side) {
      if (first > 0) out += "\n";
      for (const auto& [what, cells] : rows_) {
        out += cells.empty() ? what : fmt::format("{:<16}", what);
        for (std::size_t c = first; c < std::min(cells.size(), first + side_by_side); ++c)
          out += fmt::format(" {:>11}", cells[c]);
        out += "\n";
      }
    }
    return out;
  }

 private:
  std::size_t columns_;
  std::vector<std::pair<std::string, std::vector<std::string>>> rows_;
};

// Adds a row with value(rank) for each rank, unless all values are 0.
template <class Value>
static void add_sizes(RankTable& table, const Plan& p, std::string_view what,
                      std::string (*text)(double), Value value) {
  std::vector<std::string> cells;
  bool any = false;
  for (const auto& r : p.ranks) {
    const auto bytes = static_cast<double>(value(r));
    any |= bytes > 0;
    cells.push_back(bytes > 0 ? text(bytes) : "-");
  }
  if (any) table.row(what, std::move(cells));
}

static void add_traffic(RankTable& table, const Plan& p, Axes::Traffic RankPlan::*sent) {
  using T = Axes::Traffic;
  const std::pair<std::string_view, std::int64_t T::*> axes[] = {{"  shards", &T::shard},
                                                                 {"  along seq", &T::seq},
                                                                 {"  along pipe", &T::pipe},
                                                                 {"  to experts", &T::expert}};
  for (const auto& [what, axis] : axes)
    add_sizes(table, p, what, traffic_text, [&](const RankPlan& r) { return r.*sent.*axis; });
}

static std::string ranks_text(const Plan& p, const PlanInput& in,
                              const BackendProperties& machine) {
  const Grid& grid = in.grid;
  RankTable table(p.ranks.size());
  const auto plain = [&](std::string_view what, auto value) {
    std::vector<std::string> cells;
    for (const auto& r : p.ranks) cells.push_back(fmt::format("{}", value(r)));
    table.row(what, std::move(cells));
  };
  if (grid.ranks() > 1) {
    plain("rank", [](const RankPlan& r) { return r.rank; });
    if (grid.pipe > 1) plain("stage", [](const RankPlan& r) { return r.at.pipe; });
    if (grid.seq > 1) plain("seq", [](const RankPlan& r) { return r.at.seq; });
    if (grid.expert > 1) plain("experts", [](const RankPlan& r) { return r.experts; });
    plain("blocks",
          [&](const RankPlan& r) { return p.stage_blocks[static_cast<std::size_t>(r.at.pipe)]; });
  }
  table.row("memory", {});
  for (std::size_t k = 0; k < memory_kind_count; ++k)
    add_sizes(table, p, fmt::format("  {}", name_of(static_cast<MemoryKind>(k))), memory_text,
              [k](const RankPlan& r) { return r.account.peak[k]; });
  add_sizes(table, p, "  live peak", memory_text,
            [](const RankPlan& r) { return r.account.peak_all; });
  add_sizes(table, p, "  reserved", memory_text, [](const RankPlan& r) { return r.reserved; });
  add_sizes(table, p, machine.host_readable ? "  incl. pinned" : "  host, pinned", memory_text,
            [](const RankPlan& r) { return r.account.pinned_reserved; });
  if (!machine.host_readable) {
    add_sizes(table, p, "  NCCL, estimated", memory_text,
              [](const RankPlan& r) { return r.outside.nccl; });
    add_sizes(table, p, "  headroom", memory_text,
              [](const RankPlan& r) { return r.outside.headroom; });
  }
  table.row("checkpoint", {});
  add_sizes(table, p, "  writes", traffic_text,
            [](const RankPlan& r) { return r.checkpoint_bytes; });
  plain(fmt::format("  s at {:.0f} MB/s", save_rate * 1e-6),
        [](const RankPlan& r) { return fmt::format("{:.1f}", r.checkpoint_bytes / save_rate); });
  if (in.copies == PlanCopies::included)
    add_sizes(table, p, "  memory copies", memory_text,
              [](const RankPlan& r) { return r.memory_copy_bytes; });
  if (grid.ranks() > 1) {
    table.row("sent per step", {});
    add_traffic(table, p, &RankPlan::step_traffic);
    plain("  messages", [](const RankPlan& r) { return r.step_messages; });
    if (in.ranks_of_node > 0 && in.ranks_of_node < grid.ranks()) {
      table.row(fmt::format("sent per step to other nodes ({} per node)",
                            counted(in.ranks_of_node, "rank")),
                {});
      add_traffic(table, p, &RankPlan::to_other_nodes);
    }
  }
  return table.text();
}

static std::string freeze_text(const Plan& p) {
  if (p.freeze_borders.empty()) return "";
  constexpr std::size_t most_named = 8;
  const auto n = std::min(most_named, p.freeze_borders.size());
  return fmt::format(
      "the trained parameters change at {} {}{} (counted from 0): memory is the maximum over the "
      "run; work, traffic and schedule are those of step {}, which trains the most parameters\n",
      p.freeze_borders.size() == 1 ? "step" : "steps",
      fmt::join(std::span(p.freeze_borders).first(n), ", "),
      n < p.freeze_borders.size() ? fmt::format(" and {} more", p.freeze_borders.size() - n) : "",
      p.busiest_step);
}

static std::string loads_text(const PlanInput& in) {
  if (in.setup.model.experts == 0) return "";
  const auto schedule = in.setup.schedule;
  const bool keeps_rounds = in.grid.expert > 1 && (schedule == ScheduleKind::zero_bubble ||
                                                   schedule == ScheduleKind::zbv);
  return fmt::format("work{} and times assume evenly loaded experts{}\n",
                     in.grid.expert > 1 ? ", traffic to experts" : "",
                     keeps_rounds ? fmt::format("; with parallel.schedule = \"{}\", memory also "
                                                "assumes them, and uneven loads may take more",
                                                name_of(schedule))
                                  : "");
}

static std::string schedule_text(const Plan& p, const Grid& grid) {
  if (grid.pipe == 1) return "";
  return fmt::format(
      "schedule of a step; widths show the FLOPs of matrix products and attention:\n{}bubble "
      "{:.1f}%\n",
      timeline_text(p.timeline), 100 * bubble(p.timeline));
}

static nlohmann::ordered_json traffic_json(const Axes::Traffic& t) {
  return {{"shard", t.shard}, {"seq", t.seq}, {"pipe", t.pipe}, {"expert", t.expert}};
}

static nlohmann::ordered_json schedule_json(const Plan& p) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const auto& spans : p.timeline.stages) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (const auto& [what, begin, end] : spans)
      row.push_back({{"what", name_of(what.what)},
                     {"microbatch", what.microbatch},
                     {"chunk", what.chunk},
                     {"begin", begin},
                     {"end", end}});
    stages.push_back(std::move(row));
  }
  return {{"unit", "flops"},
          {"bubble", bubble(p.timeline)},
          {"end", p.timeline.end},
          {"stages", stages}};
}

static std::string microbatches_text(std::int64_t n) {
  return fmt::format("{} {}", n, n == 1 ? "micro-batch" : "micro-batches");
}

static std::string ramp_text(const TrainConfig& t) {
  if (t.batch_ramp.empty()) return "";
  return fmt::format(
      "batch ramp: {}, then {}. The plan describes steps of {}, which need the most memory\n",
      fmt::join(t.batch_ramp, ", "), t.batch, counted(t.batch, "sample"));
}

std::string plan_text(const Plan& p, const PlanInput& in, const DryTarget& target) {
  const auto& model = in.setup.model;
  double flops = 0;
  for (const auto& r : p.ranks) flops += r.step_flops;
  std::string text = fmt::format(
      "{}, {} layers, {} wide, compute {}\n"
      "{} of {} per step in {}, {:.2f} TFLOP on the ranks below\n"
      "{} on {}\n",
      parameters_text(make_spec(model, in.setup.adapter), in.setup.freeze, 0), model.layers,
      model.width, name_of(in.setup.compute), counted(in.train.batch, "sample"),
      counted(context_of(in.setup), "token"), microbatches_text(p.microbatches), flops * 1e-12,
      describe(in.grid), target.properties.name);
  text += ramp_text(in.train) + loads_text(in) + freeze_text(p);
  return text + ranks_text(p, in, target.properties) + schedule_text(p, in.grid);
}

std::string plan_json(const Plan& p, const PlanInput& in, const DryTarget& target) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const auto& r : p.ranks) {
    nlohmann::ordered_json kinds;
    for (std::size_t k = 0; k < memory_kind_count; ++k)
      if (r.account.peak[k])
        kinds[std::string(name_of(static_cast<MemoryKind>(k)))] = r.account.peak[k];
    StageCost flops{0, 0, 0};
    for (const auto& chunk : r.microbatch_flops) {
      flops.forward += chunk.forward;
      flops.backward += chunk.backward;
    }
    ranks.push_back(
        {{"rank", r.rank},
         {"pipe", r.at.pipe},
         {"data", r.at.data},
         {"seq", r.at.seq},
         {"expert", in.grid.place(r.rank) % in.grid.expert},
         {"experts", r.experts},
         {"blocks", p.stage_blocks[static_cast<std::size_t>(r.at.pipe)]},
         {"step_flops", r.step_flops},
         {"microbatch_flops", {{"forward", flops.forward}, {"backward", flops.backward}}},
         {"sent_bytes_a_step", traffic_json(r.step_traffic)},
         {"messages_a_step", r.step_messages},
         {"peak_bytes_by_kind", kinds},
         {"peak_bytes", r.account.peak_all},
         {"reserved_bytes", r.reserved},
         {"nccl_bytes", r.outside.nccl},
         {"headroom_bytes", r.outside.headroom},
         {"checkpoint_bytes", r.checkpoint_bytes},
         {"memory_copy_bytes", r.memory_copy_bytes},
         {"pinned_bytes", r.account.pinned_reserved}});
    if (in.ranks_of_node > 0)
      ranks.back()["sent_bytes_a_step_to_other_nodes"] = traffic_json(r.to_other_nodes);
  }
  const nlohmann::ordered_json out{{"backend", target.properties.name},
                                   {"grid",
                                    {{"pipe", in.grid.pipe},
                                     {"data", in.grid.data},
                                     {"seq", in.grid.seq},
                                     {"expert", in.grid.expert}}},
                                   {"parameters", p.parameters},
                                   {"active_parameters", p.active_parameters},
                                   {"microbatches", p.microbatches},
                                   {"freeze_borders", p.freeze_borders},
                                   {"busiest_step", p.busiest_step},
                                   {"reserved_bytes", p.most_reserved()},
                                   {"needed_bytes", p.most_needed()},
                                   {"ranks", ranks},
                                   {"kind_of_place", RankKinds(in).of_places()},
                                   {"schedule", schedule_json(p)}};
  return out.dump(2) + "\n";
}

}  // namespace trireme
