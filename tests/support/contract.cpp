#include "tests/support/contract.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <ostream>

#include "kernels/cuda/device.hpp"
#include "kernels/fenced/fenced.hpp"
#include "kernels/host/host.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/ref/ref.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/values.hpp"

namespace trireme {

std::vector<Tested> tested_backends() {
  // TRIREME_TEST_GUARDS: blocks between guards, where a backend has them.
  const auto guards = std::getenv("TRIREME_TEST_GUARDS") ? Guards::on : Guards::off;
  const auto ref = [=](int) { return std::make_unique<Ref>(Poison::off, guards); };
  const auto host = [=](int threads) {
    return std::make_unique<Host>(threads, Poison::off, guards);
  };
  const auto fenced = [](int threads) { return std::make_unique<Fenced>(threads); };
  const auto on_device = [=](Epilogues epilogues) {
    return open_cuda(
        {.bits = CudaBits::repeatable, .debug = true, .guards = guards, .epilogues = epilogues});
  };
  const auto cuda = [=](int) { return on_device(Epilogues::measured); };
  const auto fused = [=](int) { return on_device(Epilogues::always); };
  std::string why;
  const bool device = cuda_devices(&why) > 0;
  std::vector<Tested> all;
  for (const auto t : {DType::f32, DType::bf16}) {
    const std::string type(name_of(t));
    all.push_back({"ref_" + type, ref, t});
    all.push_back({"host_" + type, host, t});
    all.push_back({"fenced_" + type, fenced, t});
    if (device) all.push_back({"cuda_" + type, cuda, t});
    if (device) all.push_back({"cuda_epilogues_" + type, fused, t});
  }
  return all;
}

bool can_compute(const Tested& tested) {
  const bool on_processor = tested.name.starts_with("host") || tested.name.starts_with("fenced");
  return tested.compute != DType::bf16 || !on_processor || host::bf16_products();
}

void PrintTo(const Tested& tested, std::ostream* out) {
  *out << tested.name;
}

std::string name_of_tested(const testing::TestParamInfo<Tested>& info) {
  return info.param.name;
}

double roundoff(DType t) {
  switch (t) {
    case DType::bf16:
      return 0x1p-8;
    case DType::f32:
      return 0x1p-24;
    case DType::f64:
      return 0x1p-53;
    default:
      return 0;
  }
}

double sum_error(DType t, std::int64_t length, double magnitude) {
  constexpr double lambda = 6;
  return lambda * std::sqrt(static_cast<double>(length + 4)) * roundoff(wide(t)) * magnitude;
}

double tolerance(DType t, double x, double slack) {
  const double below = std::numeric_limits<float>::min();  // loops may count denormals as zero
  // bf16 is rounded a second time, from f32: 2^-16 of a rounding more.
  return roundoff(t) * (1 + 0x1p-16) * (std::abs(x) + slack) + slack + below;
}

namespace {

// Where two results differ most, in units of what is allowed.
void expect_close(const Lab::Result& got, const Lab::Result& want) {
  ASSERT_EQ(got.name, want.name);
  ASSERT_EQ(got.values.size(), want.values.size()) << want.name;
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double x = got.values[i], exact = want.values[i];
    const bool same = x == exact || (std::isnan(x) && std::isnan(exact));
    const double off = std::abs(x - exact) / tolerance(got.dtype, exact, want.slack);
    if (!same && !(off <= worst)) {
      worst = off;
      at = i;
      if (std::isnan(off)) break;
    }
  }
  EXPECT_LE(worst, 1) << want.name << "[" << at << "] is " << got.values[at] << ", exact is "
                      << want.values[at] << ", may be off "
                      << tolerance(got.dtype, want.values[at], want.slack);
}

void expect_bits(const std::vector<Lab::Result>& got, const std::vector<Lab::Result>& want,
                 const std::string& when) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i].bytes == want[i].bytes) << got[i].name << " has other bits " << when;
}

}  // namespace

Lab::Lab(Backend& b, DType c, DType t) : backend(b), compute(c), tested(t) {}

Lab::~Lab() {
  const Event last = backend.record(Queue::compute);
  for (const auto& b : blocks_) backend.give(b, {&last, 1});
}

View Lab::take(DType t, const Shape& s, MemoryKind kind) {
  const auto bytes = static_cast<std::size_t>(s.count()) * bytes_of(t);
  blocks_.push_back(backend.take(bytes, kind, Queue::compute));
  return {blocks_.back().data, t, s};
}

View Lab::put(DType t, DType held, const Shape& s, const std::vector<double>& values) {
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), s.count());
  const View v = take(t, s);
  backend.upload(Queue::compute, v, encode(t, decode(held, encode(held, values))));
  return v;
}

View Lab::values(const Shape& s, const std::vector<double>& v) {
  return put(compute, tested, s, v);
}
View Lab::wide_values(const Shape& s, const std::vector<double>& v) {
  return put(wide(compute), wide(tested), s, v);
}
View Lab::random(const Shape& s, std::uint64_t seed, double amplitude) {
  return values(s, random_values(s.count(), seed, amplitude));
}
View Lab::wide_random(const Shape& s, std::uint64_t seed, double amplitude) {
  return wide_values(s, random_values(s.count(), seed, amplitude));
}
View Lab::fresh(const Shape& s) {
  return values(s, std::vector<double>(static_cast<std::size_t>(s.count()), std::nan("")));
}
View Lab::wide_fresh(const Shape& s) {
  return wide_values(s, std::vector<double>(static_cast<std::size_t>(s.count()), std::nan("")));
}
View Lab::of_type(DType t, const Shape& s, const std::vector<double>& v) {
  return put(t, t, s, v);
}

View Lab::ids(const std::vector<std::int32_t>& v) {
  const View at = take(DType::i32, {static_cast<std::int64_t>(v.size())});
  backend.upload(Queue::compute, at, std::as_bytes(std::span(v)));
  return at;
}
View Lab::numbers(const std::vector<std::int64_t>& v) {
  const View at = take(DType::i64, {static_cast<std::int64_t>(v.size())});
  backend.upload(Queue::compute, at, std::as_bytes(std::span(v)));
  return at;
}
View Lab::workspace(std::size_t bytes) {
  if (bytes == 0) return {};
  return take(DType::f32, {static_cast<std::int64_t>((bytes + 3) / 4)}, MemoryKind::workspace);
}

std::vector<std::byte> Lab::bytes(const View& v) {
  std::vector<std::byte> bytes(v.span_bytes());
  backend.download(Queue::compute, bytes, v);
  return bytes;
}

View Lab::dense(const View& v) {
  View copy = take(v.dtype, {v.count()});
  copy.dims = v.dims;
  copy.extent = v.extent;
  std::int64_t n = 1;
  for (auto d = static_cast<std::size_t>(v.dims); d-- > 0; n *= v.extent[d]) copy.stride[d] = n;
  backend.put(Queue::compute, kernel::Copy{.dst = copy, .src = v});
  return copy;
}

std::vector<double> Lab::read(const View& v) {
  return decode(v.dtype, bytes(v));
}

double Lab::largest(const View& v) {
  double most = 0;
  for (double x : read(v)) most = std::max(most, std::isnan(x) ? 0 : std::abs(x));
  return most;
}

double Lab::longest_row(const View& v) {
  const auto width = static_cast<std::size_t>(v.extent[static_cast<std::size_t>(v.dims - 1)]);
  const auto values = read(v);
  double most = 0;
  for (auto row = values.begin(); row != values.end(); row += static_cast<std::ptrdiff_t>(width))
    most =
        std::max(most, std::inner_product(row, row + static_cast<std::ptrdiff_t>(width), row, 0.0));
  return std::sqrt(most);
}

void Lab::result(std::string name, const View& v, double slack) {
  auto raw = bytes(v);
  results.push_back({std::move(name), v.dtype, decode(v.dtype, raw), std::move(raw), slack});
}

// A backend with its workspace.
struct ContractTest::Opened {
  explicit Opened(std::unique_ptr<Backend> b) : backend(std::move(b)) {
    const auto bytes = backend->workspace_bytes();
    block = backend->take(bytes, MemoryKind::workspace, Queue::compute);
    backend->lend_workspace(
        {block.data, DType::f32, {static_cast<std::int64_t>(bytes / sizeof(float))}});
  }
  ~Opened() { backend->give(block, {}); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  std::vector<Lab::Result> run(DType compute, DType tested, const Body& body) const {
    Lab lab(*backend, compute, tested);
    body(lab);
    return std::move(lab.results);
  }

  std::unique_ptr<Backend> backend;
  Block block;
};

ContractTest::ContractTest() = default;
ContractTest::~ContractTest() = default;

void ContractTest::SetUp() {
  if (!can_compute(GetParam())) GTEST_SKIP() << "this processor cannot multiply bf16";
  oracle_ = std::make_unique<Opened>(std::make_unique<Ref>());
}

ContractTest::Opened& ContractTest::tested() {
  if (!tested_) tested_ = std::make_unique<Opened>(GetParam().open(1));
  return *tested_;
}

std::vector<Lab::Result> ContractTest::oracle(const Body& body) {
  return oracle_->run(DType::f64, GetParam().compute, body);
}

void ContractTest::run(const Body& body) {
  tested().run(GetParam().compute, GetParam().compute, body);
}

// TRIREME_CONTRACT_SHARE=N: the first of a test's comparisons, and one in N, others each day.
bool ContractTest::is_drawn() {
  const auto share = number_from("TRIREME_CONTRACT_SHARE", 1);
  return compared_++ == 0 || (compared_ + fuzz_seed()) % share == 0;
}

void ContractTest::compare(const std::string& what, const Body& body) {
  if (!is_drawn()) return;
  SCOPED_TRACE(what);
  const auto t = GetParam().compute;
  const auto exact = oracle(body);
  auto first = tested().run(t, t, body);
  ASSERT_EQ(first.size(), exact.size());
  ASSERT_FALSE(first.empty()) << "a body without results shows nothing";
  for (std::size_t i = 0; i < first.size(); ++i) expect_close(first[i], exact[i]);
  expect_bits(tested().run(t, t, body), first, "the second time");
  done_.push_back({what, body, std::move(first)});
}

void ContractTest::repeat_on_threads() {
  if (done_.empty()) return;
  tested_.reset();
  const Opened threads(GetParam().open(3));
  for (const auto& [what, body, first] : done_) {
    SCOPED_TRACE(what);
    expect_bits(threads.run(GetParam().compute, GetParam().compute, body), first, "on 3 threads");
  }
  done_.clear();
}

void ContractTest::TearDown() {
  repeat_on_threads();
}

}  // namespace trireme
