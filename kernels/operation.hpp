#pragma once
// The common form of all operations: operands with roles, and the amount of work. Code that does no
// arithmetic (deferring, checking access order, counting, timing) visits the operands generically
// and depends on no particular operation.
//
// An operation is a struct with
//   static constexpr std::string_view name
//   static void operands(auto& o, auto&& f)   calls f with each operand, through the verbs below
// Operands that may be absent have {} as their default. Omitting any other operand in an
// initializer is a compiler warning, which the build treats as an error. Optional members:
//   double flops() const                      floating-point operations of a product
//   double bytes() const                      memory traffic, each element read or written once;
//                                             by default the sum over the operands
//   static void in_steps(const O&, put)       puts equivalent simpler operations, for backends that
//                                             lack a kernel for this one
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kernels/accumulate.hpp"
#include "lib/base/view.hpp"

namespace trireme {

// How an operation uses an operand.
enum class Role : std::uint8_t {
  read,
  write,    // overwritten entirely; the previous contents do not matter
  add,      // read and written
  scratch,  // written and read; the contents are meaningless afterwards
};
// Whether an operand `must` be given or `may` be absent.
enum class Need : std::uint8_t { must, may };

constexpr bool reads(Role r) {
  return r == Role::read || r == Role::add;
}
constexpr bool writes(Role r) {
  return r != Role::read;
}

constexpr Role role_of(Accumulate how) {
  return how == Accumulate::add ? Role::add : Role::write;
}

// Direction of an operation: forward pass or backward pass.
enum class Direction : std::uint8_t { forward, backward };

// Functions with which an operation lists its operands, always in the same order. A `result` is
// overwritten or added to, depending on `how`. Operands listed with a may_ function may be absent
// and have {} as their default.
namespace kernel {

template <Role role, Need need = Need::must>
struct OperandVerb {
  void operator()(auto& f, auto&... views) const { (f(views, role, need), ...); }
};
inline constexpr OperandVerb<Role::read> read;
inline constexpr OperandVerb<Role::read, Need::may> may_read;
inline constexpr OperandVerb<Role::write> write;
inline constexpr OperandVerb<Role::write, Need::may> may_write;
inline constexpr OperandVerb<Role::add> add;
inline constexpr OperandVerb<Role::scratch, Need::may> may_scratch;

void result(auto& f, Accumulate how, auto& view, Need need = Need::must) {
  f(view, role_of(how), need);
}
void may_result(auto& f, Accumulate how, auto&... views) {
  (result(f, how, views, Need::may), ...);
}

}  // namespace kernel

// Calls f(view, role) for each operand that is present. If `o` is not const, `f` may modify the
// views.
template <class O, class F>
void each_operand(O& o, F&& f) {
  std::remove_const_t<O>::operands(o, [&](auto& view, Role role, Need = Need::must) {
    if (view) f(view, role);
  });
}

// Returns the index of the first required operand that is absent, or -1 if none is.
template <class O>
int missing_operand(const O& o) {
  int at = 0, missing = -1;
  O::operands(o, [&](const auto& view, Role, Need need = Need::must) {
    if (missing < 0 && need == Need::must && !view) missing = at;
    ++at;
  });
  return missing;
}

// Lower bound of the work of an operation on any machine.
struct Work {
  double bytes = 0;  // read from or written to memory
  double flops = 0;  // of matrix products and attention

  Work& operator+=(const Work& w) {
    bytes += w.bytes;
    flops += w.flops;
    return *this;
  }
};

// Returns the bytes of all elements of a view, counting each element once. Returns 0 for an absent
// view.
inline double bytes_seen(const ConstView& v) {
  return v ? static_cast<double>(v.count()) * static_cast<double>(bytes_of(v.dtype)) : 0;
}

// Returns the work of one operation.
template <class O>
Work work_of(const O& o) {
  Work w;
  if constexpr (requires { o.bytes(); })
    w.bytes = o.bytes();
  else
    each_operand(o, [&](const auto& view, Role role) {
      if (role != Role::scratch) w.bytes += (role == Role::add ? 2 : 1) * bytes_seen(view);
    });
  if constexpr (requires { o.flops(); }) w.flops = o.flops();
  return w;
}

}  // namespace trireme
