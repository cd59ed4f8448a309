#include "lib/deck/machine_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "lib/base/nearest.hpp"
#include "lib/deck/toml_reader.hpp"
#include "lib/io/posix_file.hpp"

namespace trireme {
namespace {

// What a machine file has, row by row: lists are gathered here until their section ends.
struct Builder {
  MachineModel machine;
  ProductRates product;
  AttentionRates attention;
  OperationSeconds operation;
};

using Value = std::variant<std::string, double, std::vector<double>>;

enum class Takes : std::uint8_t { text, flag, number, count, ascending, list };

struct Key {
  std::string name;
  Takes takes;
  std::string meaning;
  bool must;
  std::function<void(Builder&, const Value&)> set;
};

struct Section {
  std::string name;
  std::string meaning;
  bool repeated;
  std::vector<Key> keys;
};

double number(const Value& v) {
  return std::get<double>(v);
}
std::int64_t whole(const Value& v) {
  return static_cast<std::int64_t>(number(v));
}
std::string text(const Value& v) {
  return std::get<std::string>(v);
}
std::vector<double> list(const Value& v) {
  return std::get<std::vector<double>>(v);
}

// One of several names; their place in the list.
std::size_t one_of(const Value& v, std::initializer_list<std::string_view> names) {
  const auto given = text(v);
  const auto it = std::ranges::find(names, given);
  require(it != names.end(), "is {}, not \"{}\"",
          fmt::join(std::vector<std::string>(names.begin(), names.end()), " or "), given);
  return static_cast<std::size_t>(it - names.begin());
}

DType dtype_in(const Value& v) {
  constexpr DType types[] = {DType::bf16, DType::f32, DType::f64};
  return types[one_of(v, {"bf16", "f32", "f64"})];
}

using B = Builder&;
using V = const Value&;

Section machine_section() {
  return {
      "machine",
      "What was measured, and how.",
      false,
      {{"name", Takes::text, "of the machine", true, [](B b, V v) { b.machine.name = text(v); }},
       {"source", Takes::text, "how the numbers came about", true,
        [](B b, V v) { b.machine.source = text(v); }},
       {"measured", Takes::flag, "by `trireme calibrate`, on such a machine", false,
        [](B b, V v) { b.machine.measured = number(v) > 0; }},
       {"backend", Takes::text, "host or cuda", true,
        [](B b, V v) {
          b.machine.backend = one_of(v, {"host", "cuda"}) == 0 ? "host" : "cuda";
        }},
       {"threads", Takes::count, "of a rank on the host", false,
        [](B b, V v) { b.machine.threads = whole(v); }},
       {"ranks_of_node", Takes::count, "ranks that a node runs", true,
        [](B b, V v) { b.machine.ranks_of_node = whole(v); }}}};
}

Section peak_section() {
  const auto key = [](const char* name, DType t) {
    return Key{name, Takes::number,
               fmt::format("FLOP/s in {}: what utilisation is a part of", name), false,
               [t](B b, V v) { b.machine.peak[t] = number(v); }};
  };
  return {"peak",
          "The most that a rank's machine can compute.",
          false,
          {key("bf16", DType::bf16),
           key("f32", DType::f32),
           key("f64", DType::f64),
           {"tf32", Takes::number, "FLOP/s where precision.tf32 is set", false,
            [](B b, V v) { b.machine.peak_tf32 = number(v); }}}};
}

Section memory_section() {
  return {"memory",
          "A rank's memory.",
          false,
          {{"bytes", Takes::number, "bytes that a rank may reserve", false,
            [](B b, V v) { b.machine.memory_bytes = number(v); }},
           {"bandwidth", Takes::number, "bytes read or written a second by a large copy", false,
            [](B b, V v) { b.machine.memory_bandwidth = number(v); }}}};
}

Section host_section() {
  return {"host",
          "What the host does beside operations.",
          false,
          {{"launch", Takes::number, "seconds to put an operation on a device's queue", false,
            [](B b, V v) { b.machine.launch = number(v); }},
           {"operation", Takes::number, "seconds beside each operation", false,
            [](B b, V v) { b.machine.operation = number(v); }},
           {"agreement", Takes::number, "seconds in which a node's ranks agree on numbers", false,
            [](B b, V v) { b.machine.agreement = number(v); }}}};
}

Section link_section(const char* name, const char* meaning, LinkRates MachineModel::*link) {
  return {name,
          meaning,
          false,
          {{"latency", Takes::number, "seconds from a send to its receipt", false,
            [link](B b, V v) { (b.machine.*link).latency = number(v); }},
           {"bandwidth", Takes::number, "bytes/s of one direction while the other is as busy",
            false, [link](B b, V v) { (b.machine.*link).bandwidth = number(v); }},
           {"shared_by", Takes::count, "ranks of a node that share it", false,
            [link](B b, V v) { (b.machine.*link).shared_by = whole(v); }}}};
}

Section disk_section() {
  return {"disk",
          "Where checkpoints go.",
          false,
          {{"write", Takes::number, "bytes/s of a rank while all write", false,
            [](B b, V v) { b.machine.disk_write = number(v); }}}};
}

Section operation_section() {
  return {
      "operation",
      "Seconds of an operation that moves memory, by bytes read and written.",
      true,
      {{"name", Takes::text, "as kernels/operations.hpp has it", true,
        [](B b, V v) { b.operation.name = text(v); }},
       {"dtype", Takes::text, "bf16, f32 or f64", true,
        [](B b, V v) { b.operation.dtype = dtype_in(v); }},
       {"bytes", Takes::ascending, "of a call, ascending", true,
        [](B b, V v) { b.operation.bytes = list(v); }},
       {"seconds", Takes::list, "of each", true, [](B b, V v) { b.operation.seconds = list(v); }}}};
}

Section attention_section() {
  return {"attention",
          "Rates of attention by the tokens of a sample.",
          true,
          {{"dtype", Takes::text, "bf16, f32 or f64", true,
            [](B b, V v) { b.attention.dtype = dtype_in(v); }},
           {"direction", Takes::text, "forward or backward", true,
            [](B b, V v) {
              b.attention.direction = one_of(v, {"forward", "backward"}) == 0 ? Direction::forward
                                                                              : Direction::backward;
            }},
           {"head_dim", Takes::count, "channels of a head", true,
            [](B b, V v) { b.attention.head_dim = whole(v); }},
           {"tokens", Takes::ascending, "of a sample, ascending", true,
            [](B b, V v) { b.attention.tokens = list(v); }},
           {"flops", Takes::list, "FLOP/s at each, of the causal half alone", true,
            [](B b, V v) { b.attention.flops = list(v); }}}};
}

Section product_section() {
  return {"product",
          "Rates of products C = A B with C of M x N and sums over K.",
          true,
          {{"dtype", Takes::text, "of the operands: bf16, f32 or f64", true,
            [](B b, V v) { b.product.dtype = dtype_in(v); }},
           {"layout", Takes::text, "nt (x W'), nn (dy W) or tn (dy' x); without it, all", false,
            [](B b, V v) {
              constexpr Lay lays[] = {Lay::nt, Lay::nn, Lay::tn};
              b.product.lay = lays[one_of(v, {"nt", "nn", "tn"})];
            }},
           {"m", Takes::ascending, "ascending", true, [](B b, V v) { b.product.m = list(v); }},
           {"n", Takes::ascending, "ascending", true, [](B b, V v) { b.product.n = list(v); }},
           {"k", Takes::ascending, "ascending", true, [](B b, V v) { b.product.k = list(v); }},
           {"flops", Takes::list, "FLOP/s at each m, of it each n, of it each k", true,
            [](B b, V v) { b.product.flops = list(v); }}}};
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
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

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const auto& x : all) names.push_back(x.name);
  return names;
}

std::string kind_text(Takes t) {
  constexpr const char* texts[] = {"text",         "true or false",      "number",
                                   "whole number", "numbers, ascending", "numbers"};
  return texts[static_cast<int>(t)];
}

// Of a count; of any number, whatever its unit.
constexpr double most_counted = 0x1p30, least_number = 1e-15, most_number = 1e21;

class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  MachineModel read(std::string_view toml) {
    for (const auto& raw : read_toml(toml, source_)) read(raw);
    require(seen_.contains("machine"),
            "{}: there is no section [machine]: it says of what the "
            "numbers are",
            source_);
    auto& m = built_.machine;
    m.file = source_;
    return std::move(m);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(const SourceLocation& at, fmt::format_string<Args...> text,
                           Args&&... args) const {
    fail("{}:{}:{}: {}", source_, at.line, at.column,
         fmt::format(text, std::forward<Args>(args)...));
  }

  void read(const RawSection& raw) {
    if (raw.name.empty())
      refuse(raw.entries[0].place,
             "key '{}' stands in no section; a machine file begins with "
             "[machine]",
             raw.entries[0].key);
    const auto section = std::ranges::find(sections(), raw.name, &Section::name);
    if (section == sections().end()) {
      const auto near = nearest_name(raw.name, names_of(sections()));
      refuse(raw.place, "there is no section [{}]{}", raw.name,
             near.empty() ? fmt::format("; sections: {}", fmt::join(names_of(sections()), ", "))
                          : fmt::format("; did you mean [{}]?", near));
    }
    if (section->repeated != raw.repeated)
      refuse(raw.place, "section {0} is written {1}", raw.name,
             section->repeated ? "[[" + raw.name + "]]" : "[" + raw.name + "]");
    seen_.insert(raw.name);
    built_.product = {};
    built_.attention = {};
    built_.operation = {};
    std::set<std::string> given;
    for (const auto& entry : raw.entries) {
      assign(*section, entry);
      given.insert(entry.key);
    }
    for (const auto& key : section->keys)
      if (key.must && !given.contains(key.name))
        refuse(raw.place, "{} has no '{}' ({})", raw.name, key.name, key.meaning);
    finish(raw);
  }

  void assign(const Section& section, const RawEntry& entry) {
    const auto key = std::ranges::find(section.keys, entry.key, &Key::name);
    if (key == section.keys.end()) {
      const auto near = nearest_name(entry.key, names_of(section.keys));
      refuse(entry.place, "there is no key '{}' in {}{}", entry.key, section.name,
             near.empty() ? fmt::format("; keys: {}", fmt::join(names_of(section.keys), ", "))
                          : fmt::format("; did you mean '{}'?", near));
    }
    const auto value = accepted(section, *key, entry);
    try {
      key->set(built_, value);
    } catch (const Error& e) {
      refuse(entry.value.place, "{}.{} {}", section.name, key->name, e.what());
    }
  }

  Value accepted(const Section& section, const Key& key, const RawEntry& entry) const {
    const auto& raw = entry.value;
    const auto wrong = [&]() {
      refuse(raw.place, "{}.{} is a {}, not {}", section.name, key.name, kind_text(key.takes),
             spoken(raw));
    };
    if (key.takes == Takes::text) {
      if (const auto* s = std::get_if<std::string>(&raw.data)) return *s;
      wrong();
    }
    if (key.takes == Takes::flag) {
      if (const auto* f = std::get_if<bool>(&raw.data)) return *f ? 1.0 : 0.0;
      wrong();
    }
    if (key.takes == Takes::number || key.takes == Takes::count) return positive(section, key, raw);
    const auto* all = std::get_if<std::vector<RawValue>>(&raw.data);
    if (!all || all->empty()) wrong();
    std::vector<double> numbers;
    for (const auto& element : *all) {
      numbers.push_back(positive(section, key, element));
      const auto n = numbers.size();
      if (key.takes == Takes::ascending && n > 1 && numbers[n - 1] <= numbers[n - 2])
        refuse(element.place, "{}.{} does not ascend: {} follows {}", section.name, key.name,
               numbers[n - 1], numbers[n - 2]);
    }
    return numbers;
  }

  double positive(const Section& section, const Key& key, const RawValue& raw) const {
    double x = 0;
    if (const auto* i = std::get_if<std::int64_t>(&raw.data))
      x = static_cast<double>(*i);
    else if (const auto* d = std::get_if<double>(&raw.data))
      x = *d;
    else
      refuse(raw.place, "{}.{} is a {}, not {}", section.name, key.name, kind_text(key.takes),
             spoken(raw));
    if (!(x > 0) || !std::isfinite(x))
      refuse(raw.place, "{}.{} = {} is not above 0", section.name, key.name, x);
    if (key.takes == Takes::count && (x != std::floor(x) || x > most_counted))
      refuse(raw.place, "{}.{} = {} is not a whole number up to 2^30", section.name, key.name, x);
    if (x < least_number || x > most_number)
      refuse(raw.place, "{}.{} = {} is of no machine: numbers lie between {} and {}", section.name,
             key.name, x, least_number, most_number);
    return x;
  }

  void same_length(const RawSection& raw, std::size_t wanted, std::size_t got,
                   std::string_view key) const {
    if (wanted != got)
      refuse(raw.place, "{}.{} has {} numbers where {} belong", raw.name, key, got, wanted);
  }

  void finish(const RawSection& raw) {
    auto& m = built_.machine;
    if (raw.name == "product") {
      auto& p = built_.product;
      same_length(raw, p.m.size() * p.n.size() * p.k.size(), p.flops.size(), "flops");
      for (const auto& other : m.products)
        if (other.dtype == p.dtype && other.lay == p.lay)
          refuse(raw.place, "there is a [[product]] of this dtype and layout already");
      m.products.push_back(std::move(p));
    } else if (raw.name == "attention") {
      auto& a = built_.attention;
      same_length(raw, a.tokens.size(), a.flops.size(), "flops");
      for (const auto& other : m.attention)
        if (other.dtype == a.dtype && other.direction == a.direction &&
            other.head_dim == a.head_dim)
          refuse(raw.place,
                 "there is an [[attention]] of this dtype, direction and head_dim already");
      m.attention.push_back(std::move(a));
    } else if (raw.name == "operation") {
      auto& o = built_.operation;
      same_length(raw, o.bytes.size(), o.seconds.size(), "seconds");
      for (const auto& other : m.operations)
        if (other.name == o.name && other.dtype == o.dtype)
          refuse(raw.place, "there is an [[operation]] of this name and dtype already");
      m.operations.push_back(std::move(o));
    }
  }

  std::string source_;
  Builder built_;
  std::set<std::string> seen_;
};

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

MachineModel parse_machine(std::string_view text, const std::string& source_name) {
  return Reader(source_name).read(text);
}

MachineModel load_machine(const std::filesystem::path& path) {
  std::error_code unknown;
  require(std::filesystem::is_regular_file(path, unknown),
          "there is no machine file {}: `trireme calibrate` writes one of this machine",
          path.string());
  return parse_machine(read_text(path), path.string());
}

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

std::string machine_reference() {
  std::string out = "| key | value | meaning |\n|---|---|---|\n";
  for (const auto& s : sections())
    for (const auto& k : s.keys)
      out += fmt::format("| `{}{}.{}` | {} | {}{} |\n", s.name, s.repeated ? "[]" : "", k.name,
                         kind_text(k.takes), k.meaning, k.must ? "; required" : "");
  return out;
}

}  // namespace trireme
