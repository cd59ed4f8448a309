#pragma once
// What every operation is: operands with roles, and how much there is to do. Whatever is not
// arithmetic (deferring, checking order, counting, timing) walks the operands and names none.
//
// An operation is a struct with
//   static constexpr std::string_view name
//   static void operands(auto& o, auto&& f)   calls f with each operand, by the verbs below
// An operand that may be absent has {} as its default; leaving out another is a warning that the
// build takes for an error. Where the operands do not say it, also
//   double flops() const                      of products
//   double bytes() const                      of memory, each element read or written once
//   static void in_steps(const O&, put)       the same in other operations, for want of a kernel
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kernels/accumulate.hpp"
#include "lib/base/view.hpp"

namespace trireme {

enum class Role : std::uint8_t {
  read,
  write,    // all of it is written; what was there does not matter
  add,      // read and written
  scratch,  // written and read; its contents mean nothing afterwards
};
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

enum class Direction : std::uint8_t { forward, backward };

// The verbs with which an operation lists its operands, always in the same order. A result is added
// to or written, as `how` says; an operand of a may_ verb may be absent and has {} as its default.
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

// f(view, role) for each operand that is there; the views may be changed where `o` may.
template <class O, class F>
void each_operand(O& o, F&& f) {
  std::remove_const_t<O>::operands(o, [&](auto& view, Role role, Need = Need::must) {
    if (view) f(view, role);
  });
}

// The index of the first operand that must be there and is not; -1: none.
template <class O>
int missing_operand(const O& o) {
  int at = 0, missing = -1;
  O::operands(o, [&](const auto& view, Role, Need need = Need::must) {
    if (missing < 0 && need == Need::must && !view) missing = at;
    ++at;
  });
  return missing;
}

// The least that any machine moves and computes.
struct Work {
  double bytes = 0;  // of memory
  double flops = 0;  // of products

  Work& operator+=(const Work& w) {
    bytes += w.bytes;
    flops += w.flops;
    return *this;
  }
};

inline double bytes_seen(const ConstView& v) {
  return v ? static_cast<double>(v.count()) * static_cast<double>(bytes_of(v.dtype)) : 0;
}

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
