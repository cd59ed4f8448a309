#include <algorithm>
#include <set>
#include <span>
#include <tuple>

#include "lib/base/array_names.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/vendor_text.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/io/record_json.hpp"

namespace trireme {

namespace {

// Returns f(). Turns its Errors, and nlohmann's own exceptions (as for text that is not UTF-8),
// into Errors that name `where` as damaged.
template <class F>
auto translated(std::string_view where, F f) {
  try {
    return f();
  } catch (const Json::exception& e) {
    fail("{} is damaged: {}", where, without_tag(e.what()));
  } catch (const Error& e) {
    fail("{} is damaged: {}", where, e.what());
  }
}

// Throws Error unless file names differ, and the slices of each parameter cover it exactly once
// with one dtype, and each array with one shape.
void check_consistent(const std::vector<FileRecord>& files) {
  std::set<std::string> names;
  std::vector<const ParamSlice*> slices;
  for (const auto& f : files) {
    require(names.insert(f.name).second, "it lists {} twice", escaped(f.name));
    for (const auto& s : f.slices) slices.push_back(&s.slice);
  }
  const auto key = [](const ParamSlice* s) {
    return std::tuple(std::string_view(s->name), s->array != weights_array,
                      std::string_view(s->array), s->begin);
  };
  std::sort(slices.begin(), slices.end(), [&](auto* a, auto* b) { return key(a) < key(b); });
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto& s = *slices[i];
    const bool new_name = i == 0 || slices[i - 1]->name != s.name;
    const bool begins = new_name || slices[i - 1]->array != s.array;
    require(!new_name || s.array == weights_array, "it contains {}, but no weights, of {}", s.array,
            escaped(s.name));
    require((begins || slices[i - 1]->shape == s.shape) &&
                (new_name || slices[i - 1]->dtype == s.dtype),
            "it contains two shapes or types for {}", escaped(s.name));
    require(s.begin == (begins ? 0 : covered), "elements of {}/{} are missing or occur twice",
            s.array, escaped(s.name));
    covered = s.begin + s.count;
    const bool ends =
        i + 1 == slices.size() || slices[i + 1]->name != s.name || slices[i + 1]->array != s.array;
    require(!ends || covered == s.shape.count(),
            "the slices of {}/{} end at element {}, but the array has {} elements", s.array,
            escaped(s.name), covered, s.shape.count());
  }
}

// Returns JSON that contains the content and its hash.
Json sealed(const Json& content) {
  return {{"content", content}, {"xxh3_128", to_string(hash128(content.dump()))}};
}

Json opened(std::string_view text) {
  require(!text.empty(), "it is empty");
  const Json all = parse_json(text);
  const JsonFields f{all};
  const auto& content = f.object("content");
  require(hash128(content.dump()) == f.hash("xxh3_128"), "its content does not match its hash");
  return content;
}

template <class Record>
Json array_of(std::span<const Record> records) {
  Json array = Json::array();
  for (const auto& r : records) array.push_back(to_json(r));
  return array;
}

}  // namespace

std::string to_text(const FileRecord& r) {
  return translated("the record of " + r.name, [&] { return to_json(r).dump(); });
}

FileRecord parse_file_record(std::string_view text) {
  return translated("a rank's file record", [&] { return file_from(parse_json(text)); });
}

std::string to_text(const Manifest& m) {
  check_consistent(m.files);
  return translated(manifest_name, [&] {
    const auto files = array_of(std::span(m.files));
    return sealed({{"checkpoint", to_json(m.meta)}, {"files", files}}).dump(1) + "\n";
  });
}

Manifest parse_manifest(std::string_view text, std::string_view where) {
  return translated(where, [&] {
    const auto content = opened(text);
    Manifest m;
    m.meta = meta_from(JsonFields{content}.at("checkpoint"));
    for (const auto& file : JsonFields{content}.array("files")) m.files.push_back(file_from(file));
    check_consistent(m.files);
    return m;
  });
}

std::string to_text(const ShardRecord& r) {
  return translated(shard_record_name, [&] {
    return sealed({{"checkpoint", to_json(r.meta)},
                   {"tokenizer_xxh3_128", to_string(r.tokenizer)},
                   {"slices", array_of(std::span(r.slices))}})
        .dump();
  });
}

ShardRecord parse_shard_record(std::string_view text, std::string_view where, std::int64_t size) {
  return translated(where, [&] {
    const auto content = opened(text);
    const JsonFields f{content};
    ShardRecord r{meta_from(f.at("checkpoint")), f.hash("tokenizer_xxh3_128"), {}};
    for (const auto& slice : f.array("slices")) r.slices.push_back(slice_from(slice, size));
    return r;
  });
}

}  // namespace trireme
