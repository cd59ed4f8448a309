#include "lib/deck/machine_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/deck/machine_file.hpp"
#include "lib/predict/askings.hpp"

namespace trireme {
namespace {

double number(const MachineValue& v) {
  return std::get<double>(v);
}
std::int64_t whole(const MachineValue& v) {
  return static_cast<std::int64_t>(number(v));
}
std::string text(const MachineValue& v) {
  return std::get<std::string>(v);
}
std::vector<double> list(const MachineValue& v) {
  return std::get<std::vector<double>>(v);
}

// One of several names; their place in the list.
std::size_t one_of(const MachineValue& v, std::initializer_list<std::string_view> names) {
  const auto given = text(v);
  const auto it = std::ranges::find(names, given);
  require(it != names.end(), "is {}, not \"{}\"",
          fmt::join(std::vector<std::string>(names.begin(), names.end()), " or "), given);
  return static_cast<std::size_t>(it - names.begin());
}

DType dtype_in(const MachineValue& v) {
  constexpr DType types[] = {DType::bf16, DType::f32, DType::f64};
  return types[one_of(v, {"bf16", "f32", "f64"})];
}

// One that a step may ask for; products and attention have sections of their own.
std::string operation_name(const std::string& name) {
  const auto names = asking_names();
  if (std::ranges::find(names, name) != names.end()) return name;
  const auto near = nearest_name(name, names);
  fail("is \"{}\", which no step asks for{}", name,
       near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
}

using B = MachineBuilder&;
using V = const MachineValue&;

MachineSection machine_section() {
  return {"machine",
          "What was measured, and how.",
          Times::once,
          {{"name", Takes::text, "of the machine", Presence::required,
            [](B b, V v) { b.machine.name = text(v); }},
           {"source", Takes::text, "how the numbers came about", Presence::required,
            [](B b, V v) { b.machine.source = text(v); }},
           {"measured", Takes::flag, "by `trireme calibrate`, on such a machine",
            Presence::optional, [](B b, V v) { b.machine.measured = number(v) > 0; }},
           {"backend", Takes::text, "host or cuda", Presence::required,
            [](B b, V v) {
              b.machine.backend = one_of(v, {"host", "cuda"}) == 0 ? "host" : "cuda";
            }},
           {"threads", Takes::count, "of a rank on the host", Presence::optional,
            [](B b, V v) { b.machine.threads = whole(v); }},
           {"ranks_of_node", Takes::count, "ranks that a node runs", Presence::required,
            [](B b, V v) { b.machine.ranks_of_node = whole(v); }}}};
}

MachineSection peak_section() {
  const auto key = [](const char* name, DType t) {
    return MachineKey{name, Takes::number,
                      fmt::format("FLOP/s in {}: what utilisation is a part of", name),
                      Presence::optional, [t](B b, V v) { b.machine.peak[t] = number(v); }};
  };
  return {"peak",
          "The most that a rank's machine can compute.",
          Times::once,
          {key("bf16", DType::bf16),
           key("f32", DType::f32),
           key("f64", DType::f64),
           {"tf32", Takes::number, "FLOP/s where precision.tf32 is set", Presence::optional,
            [](B b, V v) { b.machine.peak_tf32 = number(v); }}}};
}

MachineSection memory_section() {
  return {"memory",
          "A rank's memory.",
          Times::once,
          {{"bytes", Takes::number, "bytes that a rank may reserve", Presence::optional,
            [](B b, V v) { b.machine.memory_bytes = number(v); }},
           {"bandwidth", Takes::number, "bytes read or written a second by a large copy",
            Presence::optional, [](B b, V v) { b.machine.memory_bandwidth = number(v); }}}};
}

MachineSection host_section() {
  return {"host",
          "What the host does beside operations.",
          Times::once,
          {{"launch", Takes::number, "seconds to put an operation on a device's queue",
            Presence::optional, [](B b, V v) { b.machine.launch = number(v); }},
           {"operation", Takes::number, "seconds beside each operation", Presence::optional,
            [](B b, V v) { b.machine.operation = number(v); }},
           {"agreement", Takes::number, "seconds in which a node's ranks agree on numbers",
            Presence::optional, [](B b, V v) { b.machine.agreement = number(v); }}}};
}

MachineSection link_section(const char* name, const char* meaning, LinkRates MachineModel::*link) {
  return {name,
          meaning,
          Times::once,
          {{"latency", Takes::number, "seconds from a send to its receipt", Presence::optional,
            [link](B b, V v) { (b.machine.*link).latency = number(v); }},
           {"bandwidth", Takes::number, "bytes/s of one direction while the other is as busy",
            Presence::optional, [link](B b, V v) { (b.machine.*link).bandwidth = number(v); }},
           {"shared_by", Takes::count, "ranks of a node that share it", Presence::optional,
            [link](B b, V v) { (b.machine.*link).shared_by = whole(v); }}}};
}

MachineSection disk_section() {
  return {"disk",
          "Where checkpoints go.",
          Times::once,
          {{"write", Takes::number, "bytes/s of a rank while all write", Presence::optional,
            [](B b, V v) { b.machine.disk_write = number(v); }}}};
}

MachineSection operation_section() {
  return {"operation",
          "Seconds of an operation that moves memory, by bytes read and written.",
          Times::many,
          {{"name", Takes::text, "as kernels/operations.hpp has it", Presence::required,
            [](B b, V v) { b.operation.name = operation_name(text(v)); }},
           {"dtype", Takes::text, "bf16, f32 or f64", Presence::required,
            [](B b, V v) { b.operation.dtype = dtype_in(v); }},
           {"bytes", Takes::ascending, "of a call, ascending", Presence::required,
            [](B b, V v) { b.operation.bytes = list(v); }},
           {"seconds", Takes::list, "of each", Presence::required,
            [](B b, V v) { b.operation.seconds = list(v); }}}};
}

MachineSection attention_section() {
  return {"attention",
          "Rates of attention by the tokens of a sample.",
          Times::many,
          {{"dtype", Takes::text, "bf16, f32 or f64", Presence::required,
            [](B b, V v) { b.attention.dtype = dtype_in(v); }},
           {"direction", Takes::text, "forward or backward", Presence::required,
            [](B b, V v) {
              b.attention.direction = one_of(v, {"forward", "backward"}) == 0 ? Direction::forward
                                                                              : Direction::backward;
            }},
           {"head_dim", Takes::count, "channels of a head", Presence::required,
            [](B b, V v) { b.attention.head_dim = whole(v); }},
           {"tokens", Takes::ascending, "of a sample, ascending", Presence::required,
            [](B b, V v) { b.attention.tokens = list(v); }},
           {"flops", Takes::list, "FLOP/s at each, of the causal half alone", Presence::required,
            [](B b, V v) { b.attention.flops = list(v); }}}};
}

MachineSection product_section() {
  return {"product",
          "Rates of products C = A B with C of M x N and sums over K.",
          Times::many,
          {{"dtype", Takes::text, "of the operands: bf16, f32 or f64", Presence::required,
            [](B b, V v) { b.product.dtype = dtype_in(v); }},
           {"layout", Takes::text, "nt (x W'), nn (dy W) or tn (dy' x); without it, all",
            Presence::optional,
            [](B b, V v) {
              constexpr Lay lays[] = {Lay::nt, Lay::nn, Lay::tn};
              b.product.lay = lays[one_of(v, {"nt", "nn", "tn"})];
            }},
           {"m", Takes::ascending, "ascending", Presence::required,
            [](B b, V v) { b.product.m = list(v); }},
           {"n", Takes::ascending, "ascending", Presence::required,
            [](B b, V v) { b.product.n = list(v); }},
           {"k", Takes::ascending, "ascending", Presence::required,
            [](B b, V v) { b.product.k = list(v); }},
           {"flops", Takes::list, "FLOP/s at each m, of it each n, of it each k",
            Presence::required, [](B b, V v) { b.product.flops = list(v); }}}};
}

}  // namespace

const std::vector<MachineSection>& machine_sections() {
  static const std::vector<MachineSection> all = {
      machine_section(),
      peak_section(),
      memory_section(),
      host_section(),
      link_section("near", "Messages within a node.", &MachineModel::near),
      link_section("far", "Messages between nodes.", &MachineModel::far),
      disk_section(),
      product_section(),
      attention_section(),
      operation_section()};
  return all;
}

std::string kind_text(Takes t) {
  constexpr const char* texts[] = {"a text",
                                   "true or false",
                                   "a number",
                                   "a whole number",
                                   "an array of numbers, ascending",
                                   "an array of numbers"};
  return texts[static_cast<int>(t)];
}

std::string machine_reference() {
  std::string out = "| key | value | meaning |\n|---|---|---|\n";
  for (const auto& s : machine_sections())
    for (const auto& k : s.keys)
      out += fmt::format("| `{}{}.{}` | {} | {}{} |\n", s.name, s.times == Times::many ? "[]" : "",
                         k.name, kind_text(k.takes), k.meaning,
                         k.presence == Presence::required ? "; required" : "");
  return out;
}

}  // namespace trireme
