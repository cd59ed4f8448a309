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
// Limits a number of any unit to a range that includes all machines.
KeyRow number(KeyRow row) {
  return row.in(1e-15, 1e21);
}

KeySection machine_section() {
  using M = MachineModel;
  const auto row = rows_of<M>();
  return {
      "machine",
      "The machine, and where its numbers come from.",
      false,
      {row("name", &M::name, "Name of the machine").needed(),
       row("source", &M::source, "How the numbers were obtained").needed(),
       row("measured", &M::measured,
           "Whether `trireme calibrate` measured the numbers on such a machine"),
       row("backend", &M::backend, "Backend that the numbers apply to: host or cuda")
           .of({"host", "cuda"})
           .needed(),
       count(row("threads", &M::threads, "Number of CPU threads per rank, for backend = \"host\"")),
       count(row("ranks_of_node", &M::ranks_of_node, "Number of ranks per node")).needed()}};
}

KeySection peak_section() {
  const auto row = rows_of(&MachineModel::peak);
  using Peak = std::map<DType, double>;
  const auto key = [&](DType t) {
    const auto access = row.access(
        [t](const Peak& p) { return p.contains(t) ? KeyValue(p.at(t)) : KeyValue(Automatic{}); },
        [t](Peak& p, const KeyValue& v) { p[t] = std::get<double>(v); });
    const auto meaning = fmt::format(
        "Peak FLOP/s of a rank in {}, used to compute model FLOPs utilization", name_of(t));
    return number(KeyRow(std::string(name_of(t)), ValueKind::real, access, meaning));
  };
  return {
      "peak",
      "Peak rates of the hardware of one rank.",
      false,
      {key(DType::bf16), key(DType::f32), key(DType::f64),
       number(rows_of<MachineModel>()(
           "tf32", &MachineModel::peak_tf32,
           "Peak FLOP/s of a rank in TF32, used instead of peak.f32 if precision.tf32 is set"))}};
}

KeySection memory_section() {
  using M = MachineModel;
  const auto row = rows_of<M>();
  return {"memory",
          "The memory of one rank.",
          false,
          {number(row("bytes", &M::memory_bytes, "Memory available to a rank, in bytes")),
           number(row("bandwidth", &M::memory_bandwidth,
                      "Memory bandwidth of a rank in a large copy, in bytes/s. Reads and writes "
                      "both count"))}};
}

KeySection host_section() {
  using M = MachineModel;
  const auto row = rows_of<M>();
  return {
      "host",
      "Time that the host needs in addition to operations.",
      false,
      {number(
           row("launch", &M::launch, "Host time to launch one operation on a device, in seconds")),
       number(
           row("operation", &M::operation, "Host time in addition to each operation, in seconds")),
       number(row(
           "agreement", &M::agreement,
           "Time of a small all-reduce (128 numbers) between the ranks of a node, in seconds"))}};
}

KeySection link_section(std::string name, std::string meaning, LinkRates MachineModel::*link) {
  using L = LinkRates;
  const auto row = rows_of(link);
  return {std::move(name),
          std::move(meaning),
          false,
          {number(row("latency", &L::latency,
                      "Latency of a message, from send to receipt, in seconds")),
           number(row(
               "bandwidth", &L::bandwidth,
               "Bandwidth of one direction while the other direction is equally busy, in bytes/s")),
           count(row("shared_by", &L::shared_by,
                     "Number of ranks per node that share this bandwidth"))}};
}

KeySection disk_section() {
  return {"disk",
          "The file system that checkpoints are written to.",
          false,
          {number(rows_of<MachineModel>()(
              "write", &MachineModel::disk_write,
              "Write bandwidth per rank while all ranks write, in bytes/s"))}};
}

KeySection product_section() {
  using P = ProductRates;
  const auto row = rows_of(&MachineModel::products);
  return repeated(
      &MachineModel::products, "product",
      "Rates of matrix products C = A B, where C has M x N elements and K is the inner dimension.",
      {row("dtype", &P::dtype, "Type of the operands: bf16, f32 or f64", types).needed(),
       row("layout", &P::layout,
           "Layout of the product: nt (x W'), nn (dy W), tn (dy' x), or fp8 for all products in "
           "fp8. If absent, the rates apply to all layouts. If there are no rates for fp8, those "
           "for nt are used"),
       number(row("m", &P::m, "Values of M, in ascending order")).in_order().needed(),
       number(row("n", &P::n, "Values of N, in ascending order")).in_order().needed(),
       number(row("k", &P::k, "Values of K, in ascending order")).in_order().needed(),
       number(row("flops", &P::flops,
                  "FLOP/s for every combination of m, n and k. The index of m varies slowest, that "
                  "of k fastest"))
           .needed()});
}

KeySection attention_section() {
  using A = AttentionRates;
  const auto row = rows_of(&MachineModel::attention);
  return repeated(
      &MachineModel::attention, "attention", "Rates of attention by sample length.",
      {row("dtype", &A::dtype, "Type of the operands: bf16, f32 or f64", types).needed(),
       row("direction", &A::direction, "Pass that the rates apply to: forward or backward")
           .needed(),
       count(row("head_dim", &A::head_dim, "Number of channels per attention head")).needed(),
       number(row("tokens", &A::tokens, "Sample lengths, in tokens, in ascending order"))
           .in_order()
           .needed(),
       number(row("flops", &A::flops,
                  "FLOP/s at each sample length. Only the causal half of the scores counts"))
           .needed(),
       row("span", &A::span,
           "causal, or document for attention within documents. For document, `tokens` are the "
           "lengths of causal samples with the same mean number of keys per query")});
}

// Returns the section of operations that a step may use. Products and attention have their own
// sections.
KeySection operation_section() {
  using O = OperationSeconds;
  const auto row = rows_of(&MachineModel::operations);
  return repeated(
      &MachineModel::operations, "operation",
      "Times of operations that are limited by memory bandwidth, by bytes read and written.",
      {row("name", &O::name, "Name of the operation, as in kernels/operations.hpp")
           .of(workload_names())
           .needed(),
       row("dtype", &O::dtype, "Type of the operands: bf16, f32 or f64", types).needed(),
       number(row("bytes", &O::bytes, "Bytes read and written per call, in ascending order"))
           .in_order()
           .needed(),
       number(row("seconds", &O::seconds, "Time per call for each number of bytes, in seconds"))
           .needed()});
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
