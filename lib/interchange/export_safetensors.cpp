#include "lib/interchange/export.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/draft.hpp"
#include "lib/base/error.hpp"
#include "lib/base/json.hpp"
#include "lib/interchange/chat_files.hpp"
#include "lib/interchange/hf_config.hpp"
#include "lib/interchange/hf_tensors.hpp"
#include "lib/interchange/safetensors.hpp"
#include "lib/interchange/tokenizer_files.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Writes elements of a checkpoint's parameters in the form that the file requires.
class ElementStream {
 public:
  ElementStream(StoredModel& model, ElementType type)
      : model_(model), stored_(model.dtype()), type_(type) {}

  void copy(const HfTensor& t, SafetensorsWriter& to) {
    expect(t.storage != TensorStorage::mxfp4, "export does not quantize");
    expect(t.plus == 0 || (t.storage == TensorStorage::rows && t.group == 0),
           "only plain tensors have an offset");
    if (t.storage == TensorStorage::columns)
      transpose(t, to);
    else if (t.group > 0)
      permute(t, to);
    else if (t.plus != 0)
      subtract(t, to);
    else
      model_.read(t.param, t.begin, t.shape.count(),
                  [&](std::int64_t, std::span<const std::byte> elements) {
                    append(t, stored_, elements, to);
                  });
  }

 private:
  void append(const HfTensor& t, DType type, std::span<const std::byte> elements,
              SafetensorsWriter& to) {
    rounded_.resize(elements.size() / bytes_of(type) * bytes_of(type_));
    write_elements(type, elements, type_, rounded_, t.name);
    to.append(rounded_);
  }

  // Subtracts in f64, so that values are rounded only once.
  void subtract(const HfTensor& t, SafetensorsWriter& to) {
    model_.read(t.param, t.begin, t.shape.count(),
                [&](std::int64_t, std::span<const std::byte> elements) {
                  std::vector<double> theirs(elements.size() / bytes_of(stored_));
                  read_elements(stored_ == DType::f64 ? ElementType::f64 : ElementType::f32,
                                elements, DType::f64, std::as_writable_bytes(std::span(theirs)));
                  for (auto& x : theirs) x -= t.plus;
                  append(t, DType::f64, std::as_bytes(std::span(theirs)), to);
                });
  }

  void transpose(const HfTensor& t, SafetensorsWriter& to) {
    if (stored_ == DType::f64)
      transpose_as<double>(t, to);
    else
      transpose_as<float>(t, to);
  }

  // Returns the elements that the tensor contains, in the order of the parameter.
  std::vector<std::byte> whole(const HfTensor& t) {
    std::vector<std::byte> all(static_cast<std::size_t>(t.shape.count()) * bytes_of(stored_));
    model_.read(t.param, t.begin, t.shape.count(),
                [&](std::int64_t first, std::span<const std::byte> elements) {
                  const auto at = static_cast<std::size_t>(first - t.begin) * bytes_of(stored_);
                  std::memcpy(all.data() + at, elements.data(), elements.size());
                });
    return all;
  }

  // Writes the rows in the tensor's order.
  void permute(const HfTensor& t, SafetensorsWriter& to) {
    const auto stored = whole(t);
    std::vector<std::byte> ordered(stored.size());
    const auto bytes = stored.size() / static_cast<std::size_t>(t.rows());
    for (std::int64_t row = 0; row < t.rows(); ++row)
      std::memcpy(ordered.data() + static_cast<std::size_t>(t.row_in_tensor(row)) * bytes,
                  stored.data() + static_cast<std::size_t>(row) * bytes, bytes);
    append(t, stored_, ordered, to);
  }

  // Writes a weight that is stored as [out, in] in the form [in, out], one panel of rows at a time.
  template <class T>
  void transpose_as(const HfTensor& t, SafetensorsWriter& to) {
    const auto in = static_cast<std::size_t>(t.shape[0]),
               out = static_cast<std::size_t>(t.shape[1]);
    const auto bytes = whole(t);
    const auto* const stored = reinterpret_cast<const T*>(bytes.data());
    constexpr std::size_t panel_rows = 16;  // about a cache line of each stored row
    std::vector<T> panel(panel_rows * out);
    for (std::size_t first = 0; first < in; first += panel_rows) {
      const auto rows = std::min(panel_rows, in - first);
      for (std::size_t o = 0; o < out; ++o) {
        const auto there = static_cast<std::size_t>(t.row_in_tensor(static_cast<std::int64_t>(o)));
        for (std::size_t i = 0; i < rows; ++i) panel[i * out + there] = stored[o * in + first + i];
      }
      append(t, dtype_of<T>, std::as_bytes(std::span(panel).first(rows * out)), to);
    }
  }

  StoredModel& model_;
  DType stored_;
  ElementType type_;
  std::vector<std::byte> rounded_;
};

SafeTensor in_file(const HfTensor& t, ElementType type) {
  SafeTensor s{t.name, std::string(safetensors_name(type)), {}, 0, 0};
  if (t.experts > 0) s.shape.push_back(t.experts);
  for (int d = 0; d < t.shape.dims(); ++d) s.shape.push_back(t.shape[d]);
  s.bytes = s.count() * static_cast<std::int64_t>(bytes_of(type));
  return s;
}

// The tensors of a model in files. A tensor may consist of several parts, one for each expert.
struct Contents {
  std::vector<SafeTensor> tensors;
  std::vector<std::vector<HfTensor>> parts;  // in the order of their elements
};

Contents contents_of(const ModelSpec& spec, ElementType type) {
  Contents all;
  std::map<std::string, std::size_t> places;
  for (auto& t : hf_tensors(spec)) {
    const auto [at, fresh] = places.emplace(t.name, all.tensors.size());
    if (fresh) {
      all.tensors.push_back(in_file(t, type));
      all.parts.emplace_back();
    }
    auto& parts = all.parts[at->second];
    expect(t.expert == std::ssize(parts), "the parts of a tensor are in the order of the experts");
    parts.push_back(std::move(t));
  }
  return all;
}

struct Shard {
  std::size_t begin = 0, end = 0;  // range of tensors
};

// Returns shards that each hold as many tensors as fit into `most` bytes.
std::vector<Shard> shards_of(const std::vector<SafeTensor>& tensors, std::int64_t most) {
  constexpr std::int64_t frame = 64;  // bytes of a header without tensors
  std::vector<Shard> shards;
  std::int64_t size = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto more = tensors[i].bytes + SafetensorsWriter::header_bound(tensors[i]);
    if (shards.empty() || size + more > most) {
      shards.push_back({i, i});
      size = frame;
    }
    shards.back().end = i + 1;
    size += more;
  }
  return shards;
}

std::string shard_file_name(std::size_t i, std::size_t n) {
  if (n == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, n);
}

void write_weights(ElementStream& stream, const Contents& contents,
                   const std::vector<Shard>& shards, const fs::path& folder) {
  const auto& entries = contents.tensors;
  Json places = Json::object();
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const auto name = shard_file_name(s, shards.size());
    const auto [begin, end] = shards[s];
    SafetensorsWriter file(folder / name, {entries.begin() + static_cast<std::ptrdiff_t>(begin),
                                           entries.begin() + static_cast<std::ptrdiff_t>(end)});
    for (auto i = begin; i < end; ++i) {
      for (const auto& part : contents.parts[i]) stream.copy(part, file);
      places[entries[i].name] = name;
      bytes += entries[i].bytes;
    }
    file.finish();
  }
  if (shards.size() == 1) return;
  const Json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", places}};
  write_new(folder / "model.safetensors.index.json", to_lines(index));
}

}  // namespace

ExportSummary export_safetensors(StoredModel model, const fs::path& folder,
                                 std::optional<ElementType> type, std::int64_t shard_bytes) {
  const auto& config = model.spec().config;
  ExportSummary summary;
  summary.architecture = family_of(config).architecture;
  const auto& meta = model.meta();
  const bool in_f32 = model.dtype() == DType::f32;
  const auto own = in_f32 ? kept_type(meta.extra.imported) : std::nullopt;
  summary.type = type.value_or(own.value_or(element_type(model.dtype())));
  const TokenizerSpec spec_of_tokenizer{kind_named(meta.tokenizer_kind), meta.tokenizer,
                                        meta.chat_template};
  auto tokenizer = files_of(spec_of_tokenizer, model.where());
  if (spec_of_tokenizer.kind != TokenizerKind::huggingface)
    add_generation(tokenizer, meta.extra.generation, model.where());
  add_chat_template(tokenizer, spec_of_tokenizer, model.where());
  const auto contents = contents_of(model.spec(), summary.type);
  const auto shards = shards_of(contents.tensors, shard_bytes);

  Draft draft(folder);
  make_directory(draft.path());
  ElementStream stream(model, summary.type);
  write_weights(stream, contents, shards, draft.path());
  auto written = config_of_model(config, tokenizer.ids, summary.type);
  add_kept(written, meta.extra.imported);
  write_new(draft.path() / "config.json", to_lines(written));
  if (const auto generation = generation_file(tokenizer))
    write_new(draft.path() / "generation_config.json", *generation);
  for (const auto& [name, text] : tokenizer.contents) write_new(draft.path() / name, text);
  sync_directory(draft.path());
  draft.publish();

  summary.tensors = contents.tensors.size();
  summary.files = shards.size();
  for (const auto& e : contents.tensors) summary.bytes += e.bytes;
  return summary;
}

}  // namespace trireme
