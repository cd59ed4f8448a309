#include "kernels/cuda/products/matmul.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/views.hpp"
#include "kernels/cuda/products/fp8.hpp"
#include "kernels/cuda/products/grouped.hpp"
#include "kernels/cuda/products/plan.hpp"

namespace trireme::cuda {
namespace {

// A pair of CUDA events that measures a time.
struct Stopwatch {
  std::array<cudaEvent_t, 2> mark{};
  Stopwatch() {
    for (auto& m : mark) check(cudaEventCreate(&m), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (auto* m : mark) cudaEventDestroy(m);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
};

}  // namespace

struct Products::Impl {
  CudaBits bits;
  Tf32 tf32;
  Epilogues epilogues;
  Synchronize synchronize;
  Planner planner{tf32};
  GroupedProducts grouped{planner, synchronize};
  Fp8Products fp8{planner};
  std::int64_t fused = 0;
  using Plans = std::map<Key, std::optional<Plan>>;  // nullopt: cuBLASLt has no algorithm
  using Entry = Plans::value_type;
  Plans plans;
  std::map<Key, bool> fuses;

  const Entry& plan(const Call&, Fused);
  // Multiplies with the plan of this product, or of a product that differs only in its addresses.
  void multiply(const Entry&, const Call&);
  bool faster(const Call&, const Call& trial, Fused, const Separate&);
  bool decide(const Call&, Fused, const Separate&);
};

// Returns the time of f in milliseconds: the smaller of two measurements after a warm-up. If f is
// short, each measurement calls it several times, because the first kernel waits for the host.
template <class F>
static double milliseconds(cudaStream_t stream, const F& f) {
  constexpr float short_ms = 0.2F;
  const Stopwatch watch;
  const auto& mark = watch.mark;
  float best = std::numeric_limits<float>::infinity();
  int times = 1;
  for (int i = 0; i < 3; ++i) {
    check(cudaEventRecord(mark[0], stream), "cudaEventRecord");
    for (int t = 0; t < times; ++t) f();
    check(cudaEventRecord(mark[1], stream), "cudaEventRecord");
    check(cudaEventSynchronize(mark[1]), "a product");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, mark[0], mark[1]), "cudaEventElapsedTime");
    if (i > 0) best = std::min(best, ms / static_cast<float>(times));
    if (i == 0 && ms < short_ms) times = 8;
  }
  return static_cast<double>(best);
}

// Returns what was found for the same product if it overwrites its result, as in a step's first
// micro-batch. Returns null if nothing was found.
template <class Found>
static const Found* overwriting(const std::map<Key, Found>& all, Key k) {
  k.add = false;
  const auto it = std::ranges::find_if(all, [&](const auto& one) {
    auto other = one.first;
    other.vector_alignment = k.vector_alignment;  // added sums are made in the workspace
    return other == k;
  });
  return it == all.end() ? nullptr : &it->second;
}

const Products::Impl::Entry& Products::Impl::plan(const Call& call, Fused fused) {
  const auto k = key_of(call, fused);
  if (const auto it = plans.find(k); it != plans.end()) return *it;
  Plan p = planner.describe(k, pointers_of(call, fused));
  auto found = planner.algorithms(k, p);
  if (found.empty()) return *plans.emplace(k, std::nullopt).first;
  if (bits == CudaBits::repeatable) found.erase(found.begin() + 1, found.end());
  p.algorithm = found[0];
  const auto trial = on_scratch(call);
  if (found.size() > 1 && trial) {
    const auto at = pointers_of(*trial, fused);
    point(k, p, at);
    double least = std::numeric_limits<double>::infinity();
    for (const auto& algorithm : found)
      if (const double ms = milliseconds(
              call.stream,
              [&] { planner.run(p, algorithm, at, trial->how, trial->workspace, trial->stream); });
          ms < least) {
        least = ms;
        p.algorithm = algorithm;
      }
  } else if (!trial && bits != CudaBits::repeatable) {
    if (const auto* same = overwriting(plans, k);
        same && *same && planner.works((*same)->algorithm, p))
      p.algorithm = (*same)->algorithm;
  }
  return *plans.emplace(k, std::move(p)).first;
}

void Products::Impl::multiply(const Entry& entry, const Call& call) {
  const auto& [key, p] = entry;
  const auto pointers = pointers_of(call, key.fused);
  point(key, *p, pointers);
  planner.run(*p, p->algorithm, pointers, call.how, call.workspace, call.stream);
  if (key.fused == Fused::sums && call.adds())  // cuBLASLt cannot add to sums
    add_partials(call.stream, at<float>(call.epilogue.row_sum_M), nullptr, Accumulate::add,
                 reinterpret_cast<const float*>(sums_of(call)), 1, call.c_MN.extent[0]);
}

bool Products::Impl::faster(const Call& call, const Call& trial, Fused fused,
                            const Separate& separate) {
  const auto &together = plan(call, fused), &alone = plan(call, Fused::nothing);
  const auto one = milliseconds(trial.stream, [&] { multiply(together, trial); });
  const auto two = milliseconds(trial.stream, [&] {
    multiply(alone, trial);
    separate(trial);
  });
  return one < two;
}

bool Products::Impl::decide(const Call& call, Fused fused, const Separate& separate) {
  if (bits == CudaBits::repeatable && epilogues == Epilogues::measured) return false;
  if (!may_fuse(call, fused)) return false;
  const auto k = key_of(call, fused);
  if (const auto it = fuses.find(k); it != fuses.end()) return it->second;
  bool better = plan(call, fused).second.has_value();
  if (better && epilogues == Epilogues::measured) {
    const auto* same = overwriting(fuses, k);
    if (const auto trial = on_scratch(call))
      better = faster(call, *trial, fused, separate);
    else
      better = same && *same;
  }
  return fuses.emplace(k, better).first->second;
}

Products::Products(CudaBits bits, Tf32 tf32, Epilogues epilogues, Synchronize synchronize)
    : impl_(std::make_unique<Impl>(bits, tf32, epilogues, std::move(synchronize))) {}

Products::~Products() = default;

std::int64_t Products::fused() const {
  return impl_->fused;
}

// Returns true if the rows of c are dense. Otherwise its columns are dense.
static bool by_rows(const View& c) {
  return c.stride[1] == 1 || c.extent[1] == 1;
}

bool Products::fuses(void* stream, const kernel::Matmul& product, View workspace,
                     const Separate& separate) {
  const auto part = wanted(product.epilogue);
  return part != Fused::nothing && product.c_MN.count() > 0 && by_rows(product.c_MN) &&
         impl_->decide({product, workspace, static_cast<cudaStream_t>(stream)}, part, separate);
}

void Products::run(void* stream, const kernel::Matmul& product, View workspace) {
  const auto& c = product.c_MN;
  if (c.count() == 0) return;
  expect(workspace && workspace.span_bytes() >= cuda_workspace_bytes,
         "products have their workspace");
  const auto part = wanted(product.epilogue);
  Call call{product, workspace, static_cast<cudaStream_t>(stream)};
  if (!by_rows(c)) {
    require(!product.epilogue.bias_N && part == Fused::nothing,
            "a product with an epilogue has dense rows");
    call.c_MN = c.transposed();
    call.a_MK = product.b_KN.transposed();
    call.b_KN = product.a_MK.transposed();
  }
  if (part != Fused::nothing) ++impl_->fused;
  impl_->multiply(impl_->plan(call, part), call);
}

void Products::run(void* stream, const kernel::GroupedMatmul& o, View workspace) {
  impl_->grouped.run(stream, o, workspace);
}

void Products::run(void* stream, const kernel::GroupedMatmulGrad& o, View workspace) {
  impl_->grouped.run(stream, o, workspace);
}

void Products::run(void* stream, const kernel::Fp8Matmul& o, View workspace) {
  impl_->fp8.run(stream, o, workspace);
}

}  // namespace trireme::cuda
