#include "lib/predict/machine_table.hpp"

#include "lib/keys/rows.hpp"
#include "lib/predict/machine.hpp"
#include "lib/predict/workloads.hpp"

namespace trireme {
namespace {

const std::vector types = {DType::bf16, DType::f32, DType::f64};

KeyRow count(KeyRow row) {
  return row.in(1, 0x1p30);
}
// Of any unit; there is no such machine beyond.
KeyRow number(KeyRow row) {
  return row.in(1e-15, 1e21);
}

KeySection machine_section() {
  using M = MachineModel;
  const auto row = rows_of<M>();
  return {"machine",
          "What was measured, and how.",
          false,
          {row("name", &M::name, "of the machine").needed(),
           row("source", &M::source, "how the numbers came about").needed(),
           row("measured", &M::measured, "by `trireme calibrate`, on such a machine"),
           row("backend", &M::backend, "host or cuda").of({"host", "cuda"}).needed(),
           count(row("threads", &M::threads, "of a rank on the host")),
           count(row("ranks_of_node", &M::ranks_of_node, "ranks that a node runs")).needed()}};
}

KeySection peak_section() {
  const auto row = rows_of(&MachineModel::peak);
  using Peak = std::map<DType, double>;
  const auto key = [&](DType t) {
    const auto access = row.access(
        [t](const Peak& p) { return p.contains(t) ? KeyValue(p.at(t)) : KeyValue(Automatic{}); },
        [t](Peak& p, const KeyValue& v) { p[t] = std::get<double>(v); });
    const auto meaning = fmt::format("FLOP/s in {}: what utilisation is a part of", name_of(t));
    return number(KeyRow(std::string(name_of(t)), ValueKind::real, access, meaning));
  };
  return {"peak",
          "The most that a rank's machine can compute.",
          false,
          {key(DType::bf16), key(DType::f32), key(DType::f64),
           number(rows_of<MachineModel>()("tf32", &MachineModel::peak_tf32,
                                          "FLOP/s where precision.tf32 is set"))}};
}

KeySection memory_section() {
  using M = MachineModel;
  const auto row = rows_of<M>();
  return {"memory",
          "A rank's memory.",
          false,
          {number(row("bytes", &M::memory_bytes, "bytes that a rank may reserve")),
           number(row("bandwidth", &M::memory_bandwidth,
                      "bytes read or written a second by a large copy"))}};
}

KeySection host_section() {
  using M = MachineModel;
  const auto row = rows_of<M>();
  return {"host",
          "What the host does beside operations.",
          false,
          {number(row("launch", &M::launch, "seconds to put an operation on a device's queue")),
           number(row("operation", &M::operation, "seconds beside each operation")),
           number(row("agreement", &M::agreement,
                      "seconds in which a node's ranks agree on numbers"))}};
}

KeySection link_section(std::string name, std::string meaning, LinkRates MachineModel::*link) {
  using L = LinkRates;
  const auto row = rows_of(link);
  return {std::move(name),
          std::move(meaning),
          false,
          {number(row("latency", &L::latency, "seconds from a send to its receipt")),
           number(row("bandwidth", &L::bandwidth,
                      "bytes/s of one direction while the other is as busy")),
           count(row("shared_by", &L::shared_by, "ranks of a node that share it"))}};
}

KeySection disk_section() {
  return {"disk",
          "Where checkpoints go.",
          false,
          {number(rows_of<MachineModel>()("write", &MachineModel::disk_write,
                                          "bytes/s of a rank while all write"))}};
}

KeySection product_section() {
  using P = ProductRates;
  const auto row = rows_of(&MachineModel::products);
  return repeated(
      &MachineModel::products, "product",
      "Rates of products C = A B with C of M x N and sums over K.",
      {row("dtype", &P::dtype, "of the operands: bf16, f32 or f64", types).needed(),
       row("layout", &P::layout, "nt (x W'), nn (dy W) or tn (dy' x); without it, all"),
       number(row("m", &P::m, "ascending")).in_order().needed(),
       number(row("n", &P::n, "ascending")).in_order().needed(),
       number(row("k", &P::k, "ascending")).in_order().needed(),
       number(row("flops", &P::flops, "FLOP/s at each m, of it each n, of it each k")).needed()});
}

KeySection attention_section() {
  using A = AttentionRates;
  const auto row = rows_of(&MachineModel::attention);
  return repeated(
      &MachineModel::attention, "attention", "Rates of attention by the tokens of a sample.",
      {row("dtype", &A::dtype, "bf16, f32 or f64", types).needed(),
       row("direction", &A::direction, "forward or backward").needed(),
       count(row("head_dim", &A::head_dim, "channels of a head")).needed(),
       number(row("tokens", &A::tokens, "of a sample, ascending")).in_order().needed(),
       number(row("flops", &A::flops, "FLOP/s at each, of the causal half alone")).needed()});
}

// Those that a step may ask for; products and attention have sections of their own.
KeySection operation_section() {
  using O = OperationSeconds;
  const auto row = rows_of(&MachineModel::operations);
  return repeated(
      &MachineModel::operations, "operation",
      "Seconds of an operation that moves memory, by bytes read and written.",
      {row("name", &O::name, "as kernels/operations.hpp has it").of(workload_names()).needed(),
       row("dtype", &O::dtype, "bf16, f32 or f64", types).needed(),
       number(row("bytes", &O::bytes, "of a call, ascending")).in_order().needed(),
       number(row("seconds", &O::seconds, "of each")).needed()});
}

}  // namespace

const std::vector<KeySection>& machine_sections() {
  static const auto all =
      table_of({machine_section(), peak_section(), memory_section(), host_section(),
                link_section("near", "Messages within a node.", &MachineModel::near),
                link_section("far", "Messages between nodes.", &MachineModel::far), disk_section(),
                product_section(), attention_section(), operation_section()});
  return all;
}

}  // namespace trireme
