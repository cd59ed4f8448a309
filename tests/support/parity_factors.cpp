#include "tests/support/parity_factors.hpp"

#include <algorithm>

namespace trireme::test {

namespace {

ZeroConfig zero(int stage, ZeroCadence gather = ZeroCadence::microbatch,
                ZeroCadence reduce = ZeroCadence::microbatch) {
  ZeroConfig z;
  z.stage = stage;
  z.gather = gather;
  z.reduce = reduce;
  return z;
}

// Four microbatches of a sample on each rank of up to 7, and two positions at least.
std::int64_t size_for(const Grid& g) {
  return g.ranks() == 8 ? 16 : 4 * std::max(g.ranks(), 2);
}

}  // namespace

Factor grids(int ranks) {
  Factor f;
  for (const auto& g : parity_grids({ranks}))
    f.push_back([g](ParityCase& c) {
      c.grid = g;
      c.size = size_for(g);
    });
  return f;
}

std::vector<Factor> factors(int ranks, Objectives objectives) {
  constexpr auto step = ZeroCadence::step, micro = ZeroCadence::microbatch;
  Factor zeros;
  for (const auto& z : {zero(0), zero(1), zero(2), zero(3), zero(3, step), zero(3, micro, step),
                        zero(3, step, step)})
    zeros.push_back([z](ParityCase& c) { c.zero = z; });
  zeros.push_back([](ParityCase& c) {  // two copies, or as good as that on this grid
    c.zero = zero(3);
    if (c.grid.places() % 2 == 0) c.zero.shard = c.grid.places() / 2;
  });
  zeros.push_back([](ParityCase& c) {
    c.zero = zero(3);
    c.zero.prefetch = 3;
    c.zero.scatters = 2;
  });
  const auto flavour = [](const char* name) { return [name](ParityCase& c) { c.flavour = name; }; };
  const auto microbatches = [](int m) {
    return [m](ParityCase& c) {
      c.microbatches = std::min(m, static_cast<int>(c.size) / c.grid.data);
    };
  };
  const auto adapters = [](BaseType base) {
    return [base](ParityCase& c) {
      c.adapter_rank = 2;
      c.base = base;
    };
  };
  // As far as this grid's stages and microbatches have chunks.
  const auto chunks = [](int n) {
    return [n](ParityCase& c) {
      if (c.grid.pipe * n > 8 || c.microbatches % c.grid.pipe != 0) return;
      c.schedule = ScheduleKind::interleaved;
      c.chunks = n;
    };
  };
  const auto folded = [](ParityCase& c) {
    if (c.grid.pipe * 2 > 8) return;
    c.schedule = ScheduleKind::zbv;
    c.chunks = 2;
  };
  // Experts over so many ranks, as far as there are.
  const auto experts = [](int most) {
    return [most](ParityCase& c) {
      if (c.flavour != "mixture" && c.flavour != "sigmoid" && c.flavour != "gpt_oss") return;
      const int shard = c.zero.stage == 0  ? 1
                        : c.zero.shard > 0 ? static_cast<int>(c.zero.shard)
                                           : c.grid.places();
      for (int e = 1; e <= most; ++e)
        if (c.grid.places() % e == 0 && (shard % e == 0 || e % shard == 0)) c.grid.expert = e;
    };
  };
  std::vector<Factor> all{
      grids(ranks),
      zeros,
      {flavour("gpt2"), flavour("llama"), flavour("gqa"), flavour("qwen"), flavour("mixture"),
       flavour("sigmoid"), flavour("one"), flavour("two"), flavour("olmo2"), flavour("gemma2"),
       flavour("gemma3"), flavour("scaled"), flavour("gpt_oss")},
      {experts(1), experts(2), experts(5)},
      {microbatches(1), microbatches(2), microbatches(4)},
      {[](ParityCase&) {}, [](ParityCase& c) { c.recompute = Recompute::block; },
       [](ParityCase& c) {
         c.recompute = Recompute::block;
         c.offload = Offload::inputs;
       }},
      // Pieces of a sample, whose last is shorter, one sample or several, as the grid has it.
      {[](ParityCase&) {}, [](ParityCase& c) { c.chunk_tokens = 6; }},
      {[](ParityCase&) {}, [](ParityCase& c) { c.dropout = 0.1; }},
      {[](ParityCase&) {}, [](ParityCase& c) { c.documents = true; }},
      {[](ParityCase&) {}, [](ParityCase& c) { c.weighted = true; }},
      {[](ParityCase&) {}, adapters(BaseType::compute), adapters(BaseType::nf4),
       adapters(BaseType::bf16),
       [](ParityCase& c) {
         c.adapter_rank = 2;
         c.dora = c.chunk_tokens == 0;  // each chunk takes the norms again
       }},
      {[](ParityCase&) {}, [](ParityCase& c) { c.schedule = ScheduleKind::zero_bubble; }, chunks(2),
       folded}};
  const auto pairs = [](Objective o) { return [o](ParityCase& c) { c.objective = o; }; };
  if (objectives == Objectives::all)
    all.push_back({[](ParityCase&) {},
                   [](ParityCase& c) {
                     if (c.grid.expert == 1) c.objective = Objective::distill;
                   },
                   pairs(Objective::dpo), pairs(Objective::simpo), pairs(Objective::orpo),
                   pairs(Objective::kto)});
  all.push_back({[](ParityCase&) {}, [](ParityCase& c) { c.ema = 0.6; }});
  const auto of_matrices = [](OptimizerKind k, bool each_head) {
    return [=](ParityCase& c) {
      c.optimizer = k;
      c.each_head = each_head;
    };
  };
  all.push_back({[](ParityCase&) {}, [](ParityCase& c) { c.optimizer = OptimizerKind::adamw; },
                 of_matrices(OptimizerKind::muon, false), of_matrices(OptimizerKind::muon, true),
                 of_matrices(OptimizerKind::shampoo, false)});
  return all;
}

std::vector<std::size_t> settings_of(const std::vector<Factor>& all) {
  std::vector<std::size_t> n;
  for (const auto& f : all) n.push_back(f.size());
  return n;
}

ParityCase make_case(const std::vector<Factor>& all, const Choice& choice) {
  ParityCase c;
  for (std::size_t f = 0; f < all.size(); ++f) all[f][choice[f]](c);
  return c;
}

std::vector<ParityCase> covering_cases(const std::vector<Factor>& all, std::size_t size) {
  const std::size_t first = all[0].size() > 1 ? 0 : 1;  // one grid: it meets all
  std::vector<ParityCase> cases;
  for (const auto& choice : covering_choices(settings_of(all), size, first))
    cases.push_back(make_case(all, choice));
  return cases;
}

std::vector<Factor> exact_factors(std::vector<Factor> all) {
  const auto sgd = [](double momentum, bool nesterov) {
    return [=](ParityCase& c) {
      c.momentum = momentum;
      c.nesterov = nesterov;
    };
  };
  const auto named = [](OptimizerKind k) { return [k](ParityCase& c) { c.optimizer = k; }; };
  const auto frozen = [](std::vector<FreezeRule> rules) {
    return [rules](ParityCase& c) { c.freeze = rules; };
  };
  all.back() = {sgd(0, false),
                sgd(0.8, false),
                sgd(0.8, true),
                named(OptimizerKind::adamw),
                named(OptimizerKind::lion),
                named(OptimizerKind::muon),
                [](ParityCase& c) {
                  c.optimizer = OptimizerKind::muon;
                  c.each_head = true;
                },
                named(OptimizerKind::shampoo)};
  all.push_back(
      {[](ParityCase&) {},
       frozen({{"blocks.2.*", 1, 2, ThawMoments::fresh}, {"*norm*", 0, 2, ThawMoments::keep}}),
       frozen({{"embedding.*", 0, 0}, {"blocks.0.*", 0, 2}})});
  // Gradients of adapters are smaller.
  all.push_back(
      {[](ParityCase&) {}, [](ParityCase& c) { c.clip = c.adapter_rank > 0 ? 0.001 : 0.01; }});
  all.push_back({[](ParityCase&) {},
                 [](ParityCase& c) {
                   if (c.grid.pipe == 1) return;
                   const int stages = c.grid.pipe * c.chunks;  // virtual ones
                   c.stage_layers.assign(static_cast<std::size_t>(stages), 1);
                   c.stage_layers[0] = 9 - stages;
                 }});
  // Some of the weights in fp8 are sent in fp8, on grids where weights are sent.
  const auto in_fp8 = [](GatherType sent, bool head, std::int64_t skipped) {
    return [=](ParityCase& c) {
      c.products = ProductType::fp8;
      c.zero.gather_type = sent;
      c.fp8.head = head;
      c.fp8.skip_first = c.fp8.skip_last = skipped;
    };
  };
  all.push_back({[](ParityCase&) {}, in_fp8(GatherType::compute, false, 0),
                 in_fp8(GatherType::fp8, false, 0), in_fp8(GatherType::fp8, true, 1)});
  return all;
}

}  // namespace trireme::test
