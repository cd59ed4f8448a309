// Machine files as `trireme calibrate` writes them.
#include <fmt/format.h>

#include <cmath>

#include "lib/deck/machine_file.hpp"
#include "lib/deck/toml_reader.hpp"

namespace trireme {
namespace {

std::string number_of(double x) {
  return x == std::round(x) && x < 1e9 ? fmt::format("{}", static_cast<std::int64_t>(x))
                                       : fmt::format("{:.4g}", x);
}

std::string numbers_of(const std::vector<double>& all) {
  std::string out = "[";
  std::size_t line = 0;
  for (const auto x : all) {
    if (out.size() > 1) out += ",";
    if (out.size() - line > 92) {
      line = out.size();
      out += "\n  ";
    } else if (out.size() > 1) {
      out += " ";
    }
    out += number_of(x);
  }
  return out + "]";
}

class Writer {
 public:
  std::string out;
  void section(std::string_view header) {
    out += fmt::format("{}{}\n", out.empty() ? "" : "\n", header);
  }
  void text(std::string_view key, std::string_view value) {
    out += fmt::format("{} = {}\n", key, to_toml(DeckValue(std::string(value))));
  }
  void number(std::string_view key, const std::optional<double>& x) {
    if (x) out += fmt::format("{} = {}\n", key, number_of(*x));
  }
  void plain(std::string_view key, std::string_view value) {
    out += fmt::format("{} = {}\n", key, value);
  }
};

void write_link(Writer& w, std::string_view name, const LinkRates& link) {
  if (!link.latency && !link.bandwidth) return;
  w.section(fmt::format("[{}]", name));
  w.number("latency", link.latency);
  w.number("bandwidth", link.bandwidth);
  w.plain("shared_by", fmt::format("{}", link.shared_by));
}

}  // namespace

std::string machine_text(const MachineModel& m) {
  Writer w;
  w.section("[machine]");
  w.text("name", m.name);
  w.text("source", m.source);
  w.plain("measured", m.measured ? "true" : "false");
  w.text("backend", m.backend);
  if (m.threads > 0) w.plain("threads", fmt::format("{}", m.threads));
  w.plain("ranks_of_node", fmt::format("{}", m.ranks_of_node));
  w.section("[peak]");
  for (const auto& [t, flops] : m.peak) w.number(name_of(t), flops);
  w.number("tf32", m.peak_tf32);
  w.section("[memory]");
  w.number("bytes", m.memory_bytes);
  w.number("bandwidth", m.memory_bandwidth);
  w.section("[host]");
  w.number("launch", m.launch);
  w.number("operation", m.operation);
  w.number("agreement", m.agreement);
  write_link(w, "near", m.near);
  write_link(w, "far", m.far);
  if (m.disk_write) w.section("[disk]");
  w.number("write", m.disk_write);
  for (const auto& p : m.products) {
    w.section("[[product]]");
    w.text("dtype", name_of(p.dtype));
    if (p.lay) w.text("layout", name_of(*p.lay));
    w.plain("m", numbers_of(p.m));
    w.plain("n", numbers_of(p.n));
    w.plain("k", numbers_of(p.k));
    w.plain("flops", numbers_of(p.flops));
  }
  for (const auto& a : m.attention) {
    w.section("[[attention]]");
    w.text("dtype", name_of(a.dtype));
    w.text("direction", a.direction == Direction::forward ? "forward" : "backward");
    w.plain("head_dim", fmt::format("{}", a.head_dim));
    w.plain("tokens", numbers_of(a.tokens));
    w.plain("flops", numbers_of(a.flops));
  }
  for (const auto& o : m.operations) {
    w.section("[[operation]]");
    w.text("name", o.name);
    w.text("dtype", name_of(o.dtype));
    w.plain("bytes", numbers_of(o.bytes));
    w.plain("seconds", numbers_of(o.seconds));
  }
  return w.out;
}

}  // namespace trireme
