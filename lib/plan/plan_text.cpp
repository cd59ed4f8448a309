#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/plan/plan.hpp"
#include "lib/run/saving.hpp"

namespace trireme {

static double gib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

static std::string line(std::string_view what, std::size_t bytes) {
  return fmt::format("  {:<10} {:>16} bytes {:>10.3f} GiB\n", what, bytes, gib(bytes));
}

static std::string rank_text(const RankPlan& r, std::int64_t blocks, const Grid& grid) {
  std::string text = grid.ranks() == 1
                         ? "memory of the rank:\n"
                         : fmt::format("stage {}, {} blocks, rank {} (data {}, seq {}):\n",
                                       r.at.pipe, blocks, r.rank, r.at.data, r.at.seq);
  for (std::size_t k = 0; k < kind_count; ++k)
    if (r.account.peak[k]) text += line(name_of(static_cast<Kind>(k)), r.account.peak[k]);
  text += line("live peak", r.account.peak_all);
  text += line("reserved", r.account.reserved);
  if (r.account.pinned_reserved) text += line("pinned", r.account.pinned_reserved);
  text += fmt::format("  writes {:.0f} bytes of a checkpoint, {:.1f} s at {:.0f} MB/s\n",
                      r.checkpoint_bytes, r.checkpoint_bytes / save_rate, save_rate * 1e-6);
  if (grid.ranks() > 1)
    text += fmt::format("  sent a step: {} bytes of shards, {} along seq, {} along pipe\n",
                        r.step_traffic.shard, r.step_traffic.seq, r.step_traffic.pipe);
  return text;
}

static std::string freeze_text(const Plan& p) {
  if (p.freeze_borders.empty()) return "";
  constexpr std::size_t most_named = 8;
  const auto n = std::min(most_named, p.freeze_borders.size());
  return fmt::format(
      "what is trained changes in steps {}{}: memory is the most of all these states, work, "
      "traffic "
      "and schedule are those of step {}, in which most is trained\n",
      fmt::join(std::span(p.freeze_borders).first(n), ", "),
      n < p.freeze_borders.size() ? fmt::format(" and {} more", p.freeze_borders.size() - n) : "",
      p.busiest_step);
}

static std::string schedule_text(const Plan& p, const Grid& grid) {
  if (grid.pipe == 1) return "";
  return fmt::format(
      "a step's schedule; widths are FLOPs of products and attention:\n{}bubble {:.1f}%\n",
      timeline_text(p.timeline), 100 * bubble(p.timeline));
}

static nlohmann::ordered_json schedule_json(const Plan& p) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const auto& spans : p.timeline.stages) {
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (const auto& [what, begin, end] : spans)
      row.push_back({{"what", name_of(what.what)},
                     {"microbatch", what.microbatch},
                     {"begin", begin},
                     {"end", end}});
    stages.push_back(std::move(row));
  }
  return {{"unit", "flops"},
          {"bubble", bubble(p.timeline)},
          {"end", p.timeline.end},
          {"stages", stages}};
}

std::string plan_text(const Plan& p, const PlanInput& in, const DryTarget& target) {
  const auto& model = in.setup.model;
  double flops = 0;
  for (const auto& r : p.ranks) flops += r.step_flops;
  std::string text = fmt::format(
      "{:.1f}M parameters, {} layers, {} wide, compute {}\n"
      "{} samples of {} tokens a step in {} microbatches, {:.2f} TFLOP on the ranks below\n"
      "{} on {}\n",
      static_cast<double>(p.parameters) * 1e-6, model.layers, model.width,
      name_of(in.setup.compute), in.train.batch, model.context, p.microbatches, flops * 1e-12,
      describe(in.grid), target.properties.name);
  text += freeze_text(p);
  for (const auto& r : p.ranks)
    text += rank_text(r, p.stage_blocks[static_cast<std::size_t>(r.at.pipe)], in.grid);
  return text + schedule_text(p, in.grid);
}

std::string plan_json(const Plan& p, const PlanInput& in, const DryTarget& target) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const auto& r : p.ranks) {
    nlohmann::ordered_json kinds;
    for (std::size_t k = 0; k < kind_count; ++k)
      if (r.account.peak[k]) kinds[std::string(name_of(static_cast<Kind>(k)))] = r.account.peak[k];
    ranks.push_back(
        {{"rank", r.rank},
         {"pipe", r.at.pipe},
         {"data", r.at.data},
         {"seq", r.at.seq},
         {"blocks", p.stage_blocks[static_cast<std::size_t>(r.at.pipe)]},
         {"step_flops", r.step_flops},
         {"microbatch_flops",
          {{"forward", r.microbatch_flops.forward}, {"backward", r.microbatch_flops.backward}}},
         {"sent_bytes_a_step",
          {{"shard", r.step_traffic.shard},
           {"seq", r.step_traffic.seq},
           {"pipe", r.step_traffic.pipe}}},
         {"peak_bytes_by_kind", kinds},
         {"peak_bytes", r.account.peak_all},
         {"reserved_bytes", r.reserved},
         {"checkpoint_bytes", r.checkpoint_bytes},
         {"pinned_bytes", r.account.pinned_reserved}});
  }
  const nlohmann::ordered_json out{
      {"backend", target.properties.name},
      {"grid", {{"pipe", in.grid.pipe}, {"data", in.grid.data}, {"seq", in.grid.seq}}},
      {"parameters", p.parameters},
      {"microbatches", p.microbatches},
      {"freeze_borders", p.freeze_borders},
      {"busiest_step", p.busiest_step},
      {"reserved_bytes", p.most_reserved()},
      {"ranks", ranks},
      {"schedule", schedule_json(p)}};
  return out.dump(2) + "\n";
}

}  // namespace trireme
