#include "tests/parallel/parity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "lib/base/array_names.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/rng.hpp"
#include "lib/comm/agree.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "tests/parallel/counted.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/device_on_host.hpp"
#include "tests/support/tiny.hpp"

namespace trireme::test {

static bool through_nccl(const ParityCase& p) {
  return p.backend == "cuda" && p.transport == TransportKind::device;
}

BackendChoice backend_of(const ParityCase& p, bool debug) {
  BackendChoice c{.name = p.backend, .threads = 1, .debug = debug, .bits = CudaBits::repeatable};
  if (through_nccl(p)) {
    c.device = world().node().rank();
    c.debug = false;  // would wait on the host for what delays hold back on another rank
  }
  return c;
}

std::string backend_or(const char* usual) {
  const char* chosen = std::getenv("TRIREME_TEST_BACKEND");
  return chosen && *chosen ? chosen : usual;
}

double learning_rate(const ParityCase& p) {
  if (p.optimizer != OptimizerKind::sgd) return 1e-3;
  return p.momentum > 0 ? 0.03 : 0.3;
}

static Batch masked_batch(const ParityCase& p, std::int64_t first, std::int64_t samples) {
  auto b = random_batch(parity_setup(p), samples, first);
  const auto T = parity_context(p);
  b.valid = 0;
  for (std::int64_t i = 0; i < samples; ++i)
    for (std::int64_t t = 0; t < T; ++t) {
      auto& target = b.targets_BT[static_cast<std::size_t>(i * T + t)];
      const auto s = (first + i) % 4;
      if (s == 1 || (s == 2 && t < T / 2)) target = no_target;
      b.valid += target != no_target;
    }
  return b;
}

// Of 29 ids: a document has about 7 tokens, and a few begin in each sample of 16.
constexpr std::int32_t separators = 4;

// A pair in each sample, as plans have it; what ends before the sample does is padded. Of some
// documents the first target is masked.
static Batch batch_of_pairs(const ParityCase& p, std::int64_t first, std::int64_t samples) {
  auto b = random_batch(parity_setup(p), samples, first);
  const auto T = parity_context(p);
  // Their scores are above the model's losses on most documents, so that z is not 0.
  const bool labeled = traits_of(p.objective).samples == Documents::labeled;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto s = first + i, middle = T / 2 - s % 2, end = T - s % 3;
    for (std::int64_t t = 0; t < T; ++t) {
      const auto start = t < middle ? 0 : t < end ? middle : t;
      b.start_BT.push_back(static_cast<std::int32_t>(start));
      const auto at = static_cast<std::size_t>(i * T + t);
      if (t >= end || (t == start && s % 2 == 1)) b.targets_BT[at] = no_target;
      if (t + 1 == middle || t + 1 == end) b.targets_BT[at] = b.ids_BT[at];  // at least one
    }
    b.tokens_B.push_back(end);
    for (const double document : {0.0, 1.0})
      b.reference_D.push_back((labeled ? 27 : 20) + std::sin(static_cast<double>(s) + document));
    if (labeled) b.desirable_A.push_back(s % 3 != 0);
  }
  b.valid = std::ranges::count_if(b.targets_BT, [](auto t) { return t != no_target; });
  return b;
}

// Documents of about 5 tokens, whose weights differ by factors of up to 1,000.
static void weigh(Batch& b) {
  const auto T = b.ids_BT.size() / b.sample_B.size();
  for (std::size_t i = 0; i < b.ids_BT.size(); ++i) {
    const auto sample = b.sample_B[i / T];
    const auto r = philox4x32(5, i % T, static_cast<std::uint64_t>(sample));
    const bool begins = i % T == 0 || r[0] % 5 == 0;
    b.weight_BT.push_back(begins ? std::exp(static_cast<float>(r[1] % 7) - 3.3F)
                                 : b.weight_BT.back());
  }
}

Batch parity_batch(const ParityCase& p, int step, int m, int d) {
  const auto micro = p.size / (p.grid.data * p.microbatches);
  if (trains_on_pairs(p))
    return batch_of_pairs(p, step * p.size + (m * p.grid.data + d) * micro, micro);
  auto b = masked_batch(p, step * p.size + (m * p.grid.data + d) * micro, micro);
  if (p.weighted) weigh(b);
  if (!p.documents) return b;
  b.start_BT = starts_of(b, separators);
  pad(b);
  return b;
}

std::vector<Batch> parity_step(const ParityCase& p, const Trainer& trainer, int step) {
  std::vector<Batch> mine;
  for (int m = 0; m < p.microbatches; ++m)
    mine.push_back(trainer.share(parity_batch(p, step, m, trainer.axes().at.data)));
  return mine;
}

template <class T>
static std::vector<double> read_range(Store& store, ParamId id, std::string_view array, Range r) {
  std::vector<T> values(static_cast<std::size_t>(r.count()));
  store.read(id, array, r.begin, std::as_writable_bytes(std::span(values)));
  return {values.begin(), values.end()};
}

static std::vector<double> elements_here(Store& store, ParamId id, std::string_view array) {
  const auto mine = store.own(id);
  if (mine.count() == 0) return {};
  return store.master() == DType::f64 ? read_range<double>(store, id, array, mine)
                                      : read_range<float>(store, id, array, mine);
}

std::vector<double> weights_here(Store& store, ParamId id) {
  return elements_here(store, id, weights_array);
}

std::vector<double> averages_here(Store& store, ParamId id) {
  if (!store.averages() || !store.has_arrays(id)) return {};
  return elements_here(store, id, average_array);
}

static void initialize(Trainer& trainer) {
  trainer.store().initialize(3, 1);
  if (auto* teacher = trainer.teacher()) teacher->store().initialize(5, 1);
}

using Here = std::vector<double> (*)(Store&, ParamId);

// Trains from the start; at the end, `collect(store, here, p)` of each parameter.
template <class Collect>
static Course course_of(const ParityCase& p, Trainer& trainer, const Collect& collect) {
  initialize(trainer);
  Course course;
  for (int s = 0; s < p.steps; ++s) {
    const auto r = trainer.step(s, learning_rate(p), parity_step(p, trainer, s));
    course.losses.push_back(r.loss);
    course.norms.push_back(r.grad_norm);
  }
  for (std::size_t i = 0; i < trainer.store().spec().params.size(); ++i) {
    course.weights.push_back(collect(trainer.store(), weights_here, ParamId::at(i)));
    course.averages.push_back(collect(trainer.store(), averages_here, ParamId::at(i)));
  }
  return course;
}

static Course train_alone(const ParityCase& grid_case) {
  ParityCase p = grid_case;
  p.grid = {};
  p.zero = {};
  p.stage_layers = {};
  p.chunk_tokens = 0;
  p.offload = Offload::none;
  p.microbatches = 2;
  const auto backend = open_backend(backend_of(p, true));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, {}, parity_setup(p));
  return course_of(p, trainer, [](Store& s, Here here, ParamId id) { return here(s, id); });
}

static void append(std::string& to, const std::vector<double>& v) {
  const auto n = static_cast<std::uint64_t>(v.size());
  to.append(reinterpret_cast<const char*>(&n), sizeof n);
  to.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(double));
}

static std::vector<double> take(const std::string& from, std::size_t& at) {
  std::uint64_t n = 0;
  std::memcpy(&n, from.data() + at, sizeof n);
  std::vector<double> v(n);
  std::memcpy(v.data(), from.data() + at + sizeof n, n * sizeof(double));
  at += sizeof n + n * sizeof(double);
  return v;
}

const Course& one_rank_course(const ParityCase& given) {
  auto p = given;
  if (p.backend == "cuda") p.backend = "host";  // an oracle of its own
  static std::map<std::string, Course> courses;
  std::string key = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
      int(p.base), p.dora, p.ema, int(p.products), p.fp8.head, p.fp8.skip_first, p.fp8.skip_last,
      p.width, p.exact_chunk, p.documents, p.weighted, int(p.objective), p.size, p.context,
      p.layers, p.head_dim, p.flavour, p.dropout, p.adapter_rank, int(p.optimizer), p.each_head,
      p.momentum, p.nesterov, p.clip.value_or(-1), p.backend, trireme::name_of(p.compute), p.steps);
  for (const auto& f : p.freeze)
    key += fmt::format(" {} {} {} {}", f.pattern, f.from_step, f.to_step, int(f.moments));
  if (const auto it = courses.find(key); it != courses.end()) return it->second;
  std::string bytes;
  together(world(), [&] {
    if (world().rank() != 0) return;
    const auto c = train_alone(p);
    append(bytes, c.losses);
    append(bytes, c.norms);
    for (const auto& w : c.weights) append(bytes, w);
    for (const auto& a : c.averages) append(bytes, a);
  });
  world().broadcast(bytes);
  Course c;
  std::size_t at = 0;
  c.losses = take(bytes, at);
  c.norms = take(bytes, at);
  std::vector<std::vector<double>> all;
  while (at < bytes.size()) all.push_back(take(bytes, at));
  const auto params = all.begin() + std::ssize(all) / 2;
  c.weights.assign(all.begin(), params);
  c.averages.assign(params, all.end());
  return courses.emplace(key, std::move(c)).first->second;
}

// Every rank's parts of a parameter: where each begins, its bits. Empty if no rank has a part.
static std::vector<double> whole(Store& store, Here here, ParamId id) {
  std::string mine;
  append(mine, {static_cast<double>(store.own(id).begin)});
  append(mine, here(store, id));
  const auto n = static_cast<std::size_t>(store.spec().params[id.index()].shape.count());
  std::vector<double> w(n);
  std::vector<std::uint8_t> filled(n, 0);
  for (const auto& part : world().all_gather(mine)) {
    std::size_t at = 0;
    const auto begin = static_cast<std::size_t>(take(part, at)[0]);
    const auto values = take(part, at);
    for (std::size_t e = 0; e < values.size(); ++e) {
      if (filled[begin + e]) {
        EXPECT_EQ(values[e], w[begin + e]) << "copies of " << store.spec().params[id.index()].name;
      }
      w[begin + e] = values[e];
      filled[begin + e] = 1;
    }
  }
  if (std::ranges::count(filled, 1) == 0) return {};
  EXPECT_EQ(std::ranges::count(filled, 0), 0) << store.spec().params[id.index()].name;
  return w;
}

Course grid_course(const ParityCase& p) {
  const auto backend = open_backend(backend_of(p, true));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, parity_axes(p), parity_setup(p));
  return course_of(p, trainer, whole);
}

std::string digest_of(const Course& c) {
  Hasher hasher;
  const auto add = [&](const std::vector<double>& v) {
    hasher.update(std::as_bytes(std::span(v)));
  };
  add(c.losses);
  add(c.norms);
  for (const auto& w : c.weights) add(w);
  for (const auto& a : c.averages) add(a);
  return to_string(hasher.digest());
}

static double largest(const std::vector<double>& v) {
  double most = 0;
  for (double x : v) most = std::max(most, std::fabs(x));
  return most;
}

static void expect_elements(Store& store, Here here,
                            const std::vector<std::vector<double>>& expected, double bound) {
  for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
    const auto id = ParamId::at(i);
    const auto mine = here(store, id);
    const auto& whole = expected[i];
    EXPECT_EQ(mine.empty(), whole.empty() || store.own(id).count() == 0);
    const double limit = bound * std::max(largest(whole), 0.02);
    const auto begin = static_cast<std::size_t>(store.own(id).begin);
    double worst = 0;
    for (std::size_t e = 0; e < mine.size(); ++e)
      worst = std::max(worst, std::fabs(mine[e] - whole[begin + e]));
    EXPECT_LE(worst, limit) << store.spec().params[i].name;
  }
}

const Axes& parity_axes(const ParityCase& p) {
  static auto& made = *new std::map<std::string, Axes>;  // MPI may be over when statics end
  const int shard = shard_ranks(p.zero, p.grid);
  const auto key =
      fmt::format("{} {} {} {} {} {} {}", p.grid.pipe, p.grid.data, p.grid.seq, p.grid.expert,
                  shard, static_cast<int>(p.transport), through_nccl(p));
  if (const auto it = made.find(key); it != made.end()) return it->second;
  const auto axes = make_axes(world(), p.grid, shard);
  if (p.transport == TransportKind::device)
    connect(axes, through_nccl(p) ? transport::nccl_on(backend_of(p, false).device)
                                  : transport::OpenDevice(device_on_host));
  return made.emplace(key, axes).first->second;
}

void expect_parity(const ParityCase& p, double bound) {
  const auto& expected = one_rank_course(p);
  const auto& axes = parity_axes(p);
  const auto choice = backend_of(p, true);
  // A plan speaks of the traffic of one step: all are like it where nothing freezes or thaws.
  const bool steady = std::ranges::all_of(
      p.freeze, [](const FreezeRule& r) { return r.from_step == 0 && r.to_step == 0; });
  Counted counted(p, choice, axes);
  const auto backend = open_backend(choice);
  const Workspace workspace(*backend);
  Trainer trainer(*backend, axes, parity_setup(p));
  initialize(trainer);
  for (int s = 0; s < p.steps; ++s) {
    const auto r = trainer.step(s, learning_rate(p), parity_step(p, trainer, s));
    if (steady) counted.step_sent(axes);
    const auto step = static_cast<std::size_t>(s);
    EXPECT_EQ(r.outcome, StepOutcome::updated);
    EXPECT_GT(r.grad_norm, p.clip.value_or(0)) << "nothing was clipped";
    EXPECT_NEAR(r.loss, expected.losses[step], bound * expected.losses[step]) << "step " << s;
    EXPECT_NEAR(r.grad_norm, expected.norms[step], bound * expected.norms[step]) << "step " << s;
  }
  counted.taken(backend->account());
  expect_elements(trainer.store(), weights_here, expected.weights, bound);
  expect_elements(trainer.store(), averages_here, expected.averages, bound);
}

}  // namespace trireme::test
