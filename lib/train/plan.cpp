#include "lib/train/plan.hpp"

#include <nlohmann/json.hpp>

#include "lib/train/trainer.hpp"

namespace trireme {

// As many tokens as a real batch holds; what they are does not matter here.
static Batch any_batch(std::int64_t samples, std::int64_t tokens) {
  const auto n = static_cast<std::size_t>(samples * tokens);
  return {std::vector<std::int32_t>(n, 0), std::vector<std::int32_t>(n, 0),
          std::vector<std::int64_t>(static_cast<std::size_t>(samples), 0), samples * tokens};
}

Plan make_plan(const PlanInput& in, const DryTarget& target) {
  Dry backend(target);
  const Communicator world;
  Plan plan;
  {
    Trainer trainer(backend, world, in.model, in.optimizer, in.compute, 1);
    plan.parameters = trainer.model().spec().parameter_count();
    plan.microbatches = in.train.batch / in.train.microbatch;
    const std::vector<Batch> step(static_cast<std::size_t>(plan.microbatches),
                                  any_batch(in.train.microbatch, in.model.context));
    trainer.step(0, 1e-3, step);
    plan.step_flops = backend.flops();
    trainer.step(1, 1e-3, step);
    if (in.evaluation == PlanEvaluation::included) trainer.evaluate(step[0]);
    plan.account = backend.account();
  }
  plan.races = backend.races();
  return plan;
}

static double gib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

std::string plan_text(const Plan& p, const PlanInput& in, const DryTarget& target) {
  std::string text = fmt::format(
      "{:.1f}M parameters, {} layers, {} wide, compute {}\n"
      "{} samples of {} tokens a step in {} microbatches, {:.2f} TFLOP a step\n"
      "memory of the rank on {}:\n",
      static_cast<double>(p.parameters) * 1e-6, in.model.layers, in.model.width,
      name_of(in.compute), in.train.batch, in.model.context, p.microbatches, p.step_flops * 1e-12,
      target.name);
  for (std::size_t k = 0; k < kind_count; ++k)
    if (p.account.peak[k])
      text += fmt::format("  {:<10} {:>16} bytes {:>10.3f} GiB\n", name_of(static_cast<Kind>(k)),
                          p.account.peak[k], gib(p.account.peak[k]));
  text += fmt::format("  {:<10} {:>16} bytes {:>10.3f} GiB\n", "live peak", p.account.peak_all,
                      gib(p.account.peak_all));
  return text + fmt::format("  {:<10} {:>16} bytes {:>10.3f} GiB\n", "reserved", p.account.reserved,
                            gib(p.account.reserved));
}

std::string plan_json(const Plan& p, const DryTarget& target) {
  nlohmann::ordered_json kinds;
  for (std::size_t k = 0; k < kind_count; ++k)
    if (p.account.peak[k]) kinds[std::string(name_of(static_cast<Kind>(k)))] = p.account.peak[k];
  const nlohmann::ordered_json out{{"backend", target.name},
                                   {"parameters", p.parameters},
                                   {"microbatches", p.microbatches},
                                   {"step_flops", p.step_flops},
                                   {"peak_bytes_by_kind", kinds},
                                   {"peak_bytes", p.account.peak_all},
                                   {"reserved_bytes", p.account.reserved}};
  return out.dump(2) + "\n";
}

}  // namespace trireme
