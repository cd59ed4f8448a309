#include "lib/predict/workloads.hpp"

#include <algorithm>
#include <cmath>

namespace trireme {

Axis axis_of(Comm n) {
  switch (n) {
    case Comm::seq:
      return Axis::seq;
    case Comm::down:
    case Comm::up:
    case Comm::stages:
      return Axis::pipe;
    case Comm::experts:
      return Axis::expert;
    case Comm::world:
      return Axis::all;
    default:
      return Axis::shard;
  }
}

namespace {

bool is_float(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f64;
}

// Returns the narrowest floating-point type of the operands, which is the type that the operation
// computes in.
template <class O>
DType dtype_of_operation(const O& o) {
  DType narrowest = DType::f64;
  bool any = false;
  each_operand(o, [&](const auto& v, Role) {
    if (!is_float(v.dtype)) return;
    if (!any || bytes_of(v.dtype) < bytes_of(narrowest)) narrowest = v.dtype;
    any = true;
  });
  return any ? narrowest : DType::f32;
}

template <class O>
Workload plain(const O& o) {
  const auto w = work_of(o);
  Workload a;
  a.name = O::name;
  a.dtype = dtype_of_operation(o);
  a.bytes = w.bytes;
  a.flops = w.flops;
  return a;
}

Workload pointwise(std::string_view name, DType t, double bytes) {
  Workload a;
  a.name = name;
  a.dtype = t;
  a.bytes = bytes;
  return a;
}

MatmulLayout layout_of(const ConstView& a_MK, const ConstView& b_KN) {
  const bool a_rows = a_MK.stride[1] == 1, b_rows = b_KN.stride[1] == 1;
  return !a_rows ? MatmulLayout::tn : b_rows ? MatmulLayout::nn : MatmulLayout::nt;
}

// Returns the rows of one expert if all experts have equally many, which plans assume.
std::int64_t rows_of_expert(std::int64_t rows, std::int64_t experts) {
  return std::max<std::int64_t>(1, (rows + experts / 2) / experts);
}

struct Describe {
  EpilogueTime epilogues;
  const DocumentLengths& documents;
  std::vector<Workload> out = {};

  template <class O>
  void operator()(const O& o) {
    out.push_back(plain(o));
  }
  void operator()(const kernel::Copy& o) {
    out.push_back(plain(o));
    if (o.how == Accumulate::add) out.back().name = "add";
  }
  void operator()(const kernel::CrossEntropy& o) {
    out.push_back(plain(o));
    if (o.logits == Logits::become_gradient) out.back().name = "cross_entropy_grad";
  }
  void operator()(const kernel::Matmul& o) {
    Workload p = plain(o);
    p.dtype = o.a_MK.dtype;
    p.m = {o.c_MN.extent[0], o.c_MN.extent[1], o.a_MK.extent[1]};
    p.layout = layout_of(o.a_MK, o.b_KN);
    const auto& e = o.epilogue;
    p.bytes = bytes_seen(o.a_MK) + bytes_seen(o.b_KN) +
              (o.how == Accumulate::add ? 2 : 1) * bytes_seen(o.c_MN);
    out.push_back(p);
    const auto apart = [&](std::string_view name, double bytes) {
      if (epilogues == EpilogueTime::apart)
        out.push_back(pointwise(name, p.dtype, bytes));
      else
        out.front().bytes += bytes;
    };
    if (e.activated_MN) apart("activate", bytes_seen(o.c_MN) + bytes_seen(e.activated_MN));
    if (e.activated_at_MN)
      apart("activate_grad", 2 * bytes_seen(o.c_MN) + bytes_seen(e.activated_at_MN));
    if (e.row_sum_M) apart("column_sum", bytes_seen(o.a_MK) + bytes_seen(e.row_sum_M));
  }
  void operator()(const kernel::GroupedMatmul& o) {
    Workload p = plain(o);
    p.dtype = o.a_RK.dtype;
    p.m = {rows_of_expert(o.a_RK.extent[0], std::ssize(o.b_KN)), o.c_RN.extent[1],
           o.a_RK.extent[1]};
    p.layout = layout_of(o.a_RK, o.b_KN.front());
    out.push_back(p);
  }
  void operator()(const kernel::GroupedMatmulGrad& o) {
    Workload p = plain(o);
    p.dtype = o.a_RM.dtype;
    p.m = {o.a_RM.extent[1], o.b_RN.extent[1],
           rows_of_expert(o.a_RM.extent[0], std::ssize(o.c_MN))};
    p.layout = MatmulLayout::tn;
    out.push_back(p);
  }
  void operator()(const kernel::Fp8Matmul& o) {
    Workload p = plain(o);
    p.dtype = DType::bf16;
    p.m = {o.c_MN.extent[0], o.c_MN.extent[1], o.a_MK.columns()};
    p.layout = MatmulLayout::fp8;
    out.push_back(p);
  }
  template <class O>
  void attention(const O& o, const AttentionShape& s) {
    Workload a = plain(o);
    a.dtype = o.q_BTHD.dtype;
    const double share = o.start_BT ? documents.share_of_pairs(s.window) : 1;
    a.flops *= share;
    a.tokens = std::llround(share * 2 * pairs_seen(s) / static_cast<double>(s.tokens));
    a.head_dim = s.head_dim;
    a.heads = s.batch * s.heads;
    a.within_documents = static_cast<bool>(o.start_BT);
    out.push_back(a);
  }
  void operator()(const kernel::Attention& o) { attention(o, o.shape); }
  void operator()(const kernel::AttentionGrad& o) { attention(o, o.shape); }
};

}  // namespace

std::vector<Workload> workloads_of(const kernel::Operation& operation, EpilogueTime epilogues,
                                   const DocumentLengths& documents) {
  Describe d{epilogues, documents};
  std::visit([&](const auto& o) { d(o); }, operation);
  return std::move(d.out);
}

namespace {

template <class... O>
std::vector<std::string> names_in(const std::variant<O...>*) {
  return {std::string(O::name)...};
}

}  // namespace

bool is_product(std::string_view name) {
  return name == kernel::Matmul::name || name == kernel::GroupedMatmul::name ||
         name == kernel::GroupedMatmulGrad::name || name == kernel::Fp8Matmul::name;
}

std::vector<std::string> workload_names() {
  auto names = names_in(static_cast<const kernel::Operation*>(nullptr));
  std::erase_if(names, [](const std::string& name) {
    return is_product(name) || name == kernel::Attention::name ||
           name == kernel::AttentionGrad::name;
  });
  names.insert(names.end(), {"add", "cross_entropy_grad"});
  std::ranges::sort(names);
  return names;
}

Workload copy_workload(double elements, DType from, DType to, Accumulate how) {
  const auto width = [](DType t) { return static_cast<double>(bytes_of(t)); };
  const bool add = how == Accumulate::add;
  return pointwise(add ? "add" : "copy", bytes_of(from) < bytes_of(to) ? from : to,
                   elements * (width(from) + (add ? 2 : 1) * width(to)));
}

}  // namespace trireme
