#include "lib/io/record_json.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "lib/base/escaped.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/text_parts.hpp"

namespace trireme {

// Version 2 has "updates" in the place of version 1's "adam_counts", and arrays of any optimizer.
constexpr int format_version = 3;

namespace {

DType dtype_from(const std::string& name) {
  if (name == name_of(DType::f64)) return DType::f64;
  require(name == name_of(DType::f32), "'dtype' is neither f32 nor f64");
  return DType::f32;
}

std::string array_from(const std::string& group) {
  const bool plain = std::ranges::all_of(
      group, [](char c) { return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9') || c == '_'; });
  require(plain && !group.empty(), "'group' does not name an array: \"{}\"", escaped(group));
  return group;
}

Shape shape_from(const Json& extents) {
  require(extents.size() <= max_dims, "'shape' has more than {} dims", max_dims);
  std::int64_t e[max_dims], count = 1;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    e[d] = integer(extents[d], "shape", 1);
    require(e[d] <= (std::int64_t{1} << 56) / count, "'shape' has too many elements");
    count *= e[d];
  }
  switch (extents.size()) {
    case 0:
      return Shape{};
    case 1:
      return Shape{e[0]};
    case 2:
      return Shape{e[0], e[1]};
    case 3:
      return Shape{e[0], e[1], e[2]};
    case 4:
      return Shape{e[0], e[1], e[2], e[3]};
    case 5:
      return Shape{e[0], e[1], e[2], e[3], e[4]};
    default:
      return Shape{e[0], e[1], e[2], e[3], e[4], e[5]};
  }
}

// Returns the text as an array of lines, so that the deck is readable in the manifest.
Json lines_of(const std::string& text) {
  return split(text, '\n');
}

std::string text_of(const Json& lines) {
  std::vector<std::string_view> texts;
  for (const auto& l : lines) {
    require(l.is_string(), "'deck' must be an array of strings, one for each line");
    texts.push_back(l.get_ref<const std::string&>());
  }
  return fmt::format("{}", fmt::join(texts, "\n"));
}

std::int64_t count_in(const std::string& text, const char* what) {
  const auto n = number_in<std::int64_t>(text);
  require(n && 0 <= *n && *n <= most_counted,
          "'{}' in 'extra' must be a whole number from 0 on, but is \"{}\"", what, escaped(text));
  return *n;
}

Json to_json(const RunExtra& extra) {
  Json json = Json::object();
  each_extra(extra, [&](const char* name, const auto& value) {
    if (auto text = extra_text(value); !text.empty()) json[name] = std::move(text);
  });
  return json;
}

RunExtra extra_from(const Json& json) {
  RunExtra extra;
  each_extra(extra, [&]<class T>(const char* name, T& to) {
    if (!json.contains(name)) return;
    const auto text = JsonFields{json}.text(name);
    if constexpr (std::is_same_v<T, std::string>)
      to = text;
    else if (!text.empty())
      to = count_in(text, name);
  });
  return extra;
}

}  // namespace

bool is_dataset_name(std::string_view name) {
  return !name.empty() && name != "." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

Json to_json(const SliceRecord& r) {
  Json shape = Json::array(), chunks = Json::array();
  for (int d = 0; d < r.slice.shape.dims(); ++d) shape.push_back(r.slice.shape[d]);
  for (const auto& c : r.chunks) chunks.push_back(Json::array({c.at, to_string(c.hash)}));
  return {{"group", r.slice.array},
          {"name", r.slice.name},
          {"shape", shape},
          {"begin", r.slice.begin},
          {"count", r.slice.count},
          {"dtype", name_of(r.slice.dtype)},
          {"chunk_elements", r.chunk_elements},
          {"chunks", chunks}};
}

SliceRecord slice_from(const Json& json, std::int64_t file_size) {
  const JsonFields f{json};
  SliceRecord r;
  r.slice.array = array_from(f.text("group"));
  r.slice.name = f.text("name");
  require(is_dataset_name(r.slice.name), "'name' is not a valid parameter name: \"{}\"",
          escaped(r.slice.name));
  r.slice.shape = shape_from(f.array("shape"));
  const auto whole = r.slice.shape.count();
  r.slice.begin = f.integer("begin", 0, whole - 1);
  r.slice.count = f.integer("count", 1, whole - r.slice.begin);
  r.slice.dtype = dtype_from(f.text("dtype"));
  const auto bytes = static_cast<std::int64_t>(bytes_of(r.slice.dtype));
  r.chunk_elements = f.integer("chunk_elements", 1, max_chunk_bytes / bytes);
  const auto& chunks = f.array("chunks");
  require(static_cast<std::int64_t>(chunks.size()) ==
              (r.slice.count + r.chunk_elements - 1) / r.chunk_elements,
          "'chunks' of {} does not cover the whole slice", escaped(r.slice.name));
  for (const auto& c : chunks) {
    require(c.is_array() && c.size() == 2,
            "each entry of 'chunks' must be a position and a hash, [at, hash]");
    r.chunks.push_back({integer(c[0], "at", 0), hash_of(c[1], "chunk hash")});
    const auto i = static_cast<std::int64_t>(r.chunks.size()) - 1;
    const auto n = std::min(r.chunk_elements, r.slice.count - i * r.chunk_elements) * bytes;
    require(n <= file_size && r.chunks.back().at <= file_size - n,
            "a chunk of {} lies outside its file", escaped(r.slice.name));
  }
  return r;
}

Json to_json(const FileRecord& r) {
  Json slices = Json::array();
  for (const auto& s : r.slices) slices.push_back(to_json(s));
  return {{"name", r.name},
          {"size", r.size},
          {"xxh3_128", to_string(r.hash)},
          {"rank", r.rank},
          {"slices", slices}};
}

FileRecord file_from(const Json& json) {
  const JsonFields f{json};
  FileRecord r;
  r.name = f.text("name");
  require(is_plain_name(r.name) && r.name[0] != '.', "'name' is not a plain file name: \"{}\"",
          escaped(r.name));
  r.size = f.integer("size");
  r.hash = f.hash("xxh3_128");
  r.rank = static_cast<int>(f.integer("rank", -1, most_ranks));
  // Slices must fit into the file, so that a damaged record cannot cause larger allocations.
  auto left = r.size;
  for (const auto& s : f.array("slices")) {
    r.slices.push_back(slice_from(s, r.size));
    const auto& slice = r.slices.back().slice;
    const auto bytes = slice.count * static_cast<std::int64_t>(bytes_of(slice.dtype));
    require(bytes <= left, "the slices of {} are larger than the file", escaped(r.name));
    left -= bytes;
  }
  return r;
}

Json to_json(const CheckpointMeta& m) {
  Json all{{"format", format_version},
           {"step", m.step},
           {"samples", m.samples},
           {"tokens", m.tokens},
           {"skipped", m.skipped},
           {"updates", m.updates},
           {"seed", m.seed},
           {"model", lines_of(m.model)},
           {"deck", lines_of(m.deck)},
           {"version", m.version},
           {"run", m.run},
           {"grid",
            {{"pipe", m.grid.pipe},
             {"data", m.grid.data},
             {"seq", m.grid.seq},
             {"expert", m.grid.expert}}},
           {"tokenizer", m.tokenizer_kind},
           {"vocab", m.vocab},
           {"extra", to_json(m.extra)}};
  if (!m.chat_template.empty()) all["chat_template"] = lines_of(m.chat_template);
  return all;
}

CheckpointMeta meta_from(const Json& json) {
  const JsonFields f{json};
  const auto format = f.integer("format", 1);
  require(format <= format_version,
          "it has format {}, but this version of Trireme reads formats up to {} -- use the version "
          "that wrote it",
          format, format_version);
  CheckpointMeta m;
  m.step = f.integer("step", 0, most_counted);
  m.samples = f.integer("samples", 0, most_counted);
  m.tokens = f.integer("tokens", 0, most_counted);
  for (const auto& s : f.array("skipped"))
    m.skipped.push_back(integer(s, "skipped", 0, most_counted));
  const auto* updates = format == 1 ? "adam_counts" : "updates";
  for (const auto& [name, n] : f.object(updates).items())
    m.updates[name] = integer(n, updates, 0, most_counted);
  const auto& seed = f.at("seed");
  require(seed.is_number_unsigned(), "'seed' is not an unsigned integer");
  m.seed = seed.get<std::uint64_t>();
  if (format >= 3) m.model = text_of(f.array("model"));
  m.deck = text_of(f.array("deck"));
  m.version = f.text("version");
  m.run = f.text("run");
  const JsonFields grid{f.object("grid")};
  m.grid.pipe = static_cast<int>(grid.integer("pipe", 1, most_ranks));
  m.grid.data = static_cast<int>(grid.integer("data", 1, most_ranks));
  m.grid.seq = static_cast<int>(grid.integer("seq", 1, most_ranks));
  if (grid.json.contains("expert"))  // older programs did not write it
    m.grid.expert = static_cast<int>(grid.integer("expert", 1, most_ranks));
  m.tokenizer_kind = f.text("tokenizer");
  if (json.contains("chat_template")) m.chat_template = text_of(f.array("chat_template"));
  m.vocab = f.integer("vocab", 0, std::numeric_limits<std::int32_t>::max());
  m.extra = extra_from(f.object("extra"));
  return m;
}

}  // namespace trireme
