#include "lib/interchange/hf_folder.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/finite.hpp"
#include "lib/base/json.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/interchange/mxfp4.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr const char *one_file = "model.safetensors", *index_file = "model.safetensors.index.json";

// Reads an index. Returns the file of each tensor.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const auto json = parse_object(read_text(path), path.string());
  try {
    std::map<std::string, std::string> index;
    for (const auto& [tensor, file] : JsonFields{json}.object("weight_map").items()) {
      require(file.is_string(), "the file name of {} is not a string", escaped(tensor));
      index[tensor] = file.get<std::string>();
      require(is_plain_name(index[tensor]), "'{}' is not a plain file name",
              escaped(index[tensor]));
    }
    require(!index.empty(), "it lists no tensors");
    return index;
  } catch (const Error& e) {
    fail("{} is damaged: {}", path.string(), e.what());
  }
}

[[noreturn]] void refuse_folder(const fs::path& path) {
  std::error_code e;
  require(fs::is_directory(path, e),
          "{} is not a folder. Pass a folder that contains config.json and {}", path.string(),
          one_file);
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto name = entry.path().filename().string();
    require(
        !name.starts_with("pytorch_model") || !name.ends_with(".bin"),
        "{} stores its weights in {}, a format that can execute arbitrary code when it is read. "
        "Convert the model in Python with "
        "AutoModelForCausalLM.from_pretrained(\"{}\").save_pretrained(\"NEW\"), then import NEW",
        path.string(), name, path.string());
    require(!name.starts_with("adapter_model"),
            "{} contains an adapter ({}) but no model. Merge the adapter into its model in Python "
            "(merge_and_unload), save the result and import it",
            path.string(), name);
  }
  require(!is_there(path / manifest_name) && !is_there(path / "checkpoints"),
          "{} is already a Trireme checkpoint or run directory and needs no import. Set "
          "model.init_from to it, or pass it to generate or evaluate",
          path.string());
  fail("{} contains neither {} nor {}. Pass the folder of a model that save_pretrained wrote",
       path.string(), one_file, index_file);
}

// Returns the first elements of a list in words, as "a, b, c and 5 more".
std::string some_of(const std::vector<std::string>& all) {
  constexpr std::size_t shown = 5;
  auto text = fmt::format("{}", fmt::join(std::span(all).first(std::min(shown, all.size())), ", "));
  if (all.size() > shown) text += fmt::format(" and {} more", all.size() - shown);
  return text;
}

void require_files(const fs::path& folder, const std::set<std::string>& names) {
  std::vector<std::string> missing;
  for (const auto& name : names)
    if (!is_there(folder / name)) missing.push_back(escaped(name));
  require(missing.empty(), "{} is incomplete: {} lists files that are missing ({}). Download them",
          folder.string(), index_file, some_of(missing));
}

// A tensor that a file must contain.
struct Wanted {
  std::string name;
  std::vector<std::int64_t> shape;
  bool bytes = false;  // U8 instead of numbers
};

// Returns the tensors in files that together contain the tensor.
std::vector<Wanted> wanted_for(const HfTensor& t) {
  std::vector<std::int64_t> shape;
  if (t.experts > 0) shape.push_back(t.experts);
  for (int d = 0; d < t.shape.dims(); ++d) shape.push_back(t.shape[d]);
  if (t.storage != TensorStorage::mxfp4) return {{t.name, shape}};
  require(shape.back() % mxfp4::block == 0, "{}: rows of {} numbers do not consist of blocks of {}",
          t.name, shape.back(), mxfp4::block);
  shape.back() /= mxfp4::block;
  auto blocks = shape;
  blocks.push_back(mxfp4::code_bytes);
  return {{t.name, blocks, true}, {t.scales, shape, true}};
}

// Returns the model's tensors in the table that fits the folder best, with their names there.
std::vector<HfTensor> tensors_in(const HfFolder& folder, const ModelSpec& spec,
                                 const Family& family) {
  const auto& places = folder.places();
  const bool bare = std::ranges::none_of(
      places, [&](const auto& place) { return place.first.starts_with(family.prefix); });
  std::vector<HfTensor> best;
  std::ptrdiff_t fewest = 0;
  for (const auto& table : family.tensors) {
    auto tensors = hf_tensors(table, spec);
    for (auto& t : tensors)
      for (auto* const name : {&t.name, &t.scales})
        if (bare && name->starts_with(family.prefix)) name->erase(0, family.prefix.size());
    const auto missing =
        std::ranges::count_if(tensors, [&](const HfTensor& t) { return !places.contains(t.name); });
    if (!best.empty() && missing >= fewest) continue;
    best = std::move(tensors);
    fewest = missing;
  }
  return best;
}

}  // namespace

HfFolder::HfFolder(const fs::path& path) : path_(path) {
  std::map<std::string, std::string> index;
  std::set<std::string> names;
  if (is_there(path / index_file)) {
    index = read_index(path / index_file);
    for (const auto& [_, file] : index) names.insert(file);
    require_files(path, names);
  } else if (is_there(path / one_file)) {
    names.insert(one_file);
  } else {
    refuse_folder(path);
  }
  for (const auto& name : names) files_.emplace_back(path / name);
  for (const auto& file : files_) {
    const auto name = file.path().filename().string();
    for (const auto& t : file.tensors()) {
      const auto [it, fresh] = places_.emplace(t.name, Place{&file, &t});
      require(fresh, "{} and {} in {} both contain the tensor {}",
              it->second.file->path().filename().string(), name, path.string(), escaped(t.name));
    }
  }
  for (const auto& [tensor, file] : index) {
    const auto found = places_.find(tensor);
    require(found != places_.end() && found->second.file->path().filename() == file,
            "{} is incomplete: {} says that the file {} contains the tensor {}, but it does not. "
            "Download the folder again",
            path.string(), index_file, escaped(file), escaped(tensor));
  }
}

HfWeights::HfWeights(const HfFolder& folder, const ModelSpec& spec, const Family& family)
    : folder_(folder) {
  take(spec, family);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    of_param_[tensors_[i].tensor.param].push_back(i);
}

void HfWeights::take(const ModelSpec& spec, const Family& family) {
  const auto& places = folder_.places();
  std::set<std::string> known;
  std::vector<std::string> missing, unknown, wrong;
  for (auto& t : tensors_in(folder_, spec, family)) {
    std::vector<HfFolder::Place> found;
    ElementType type = ElementType::bf16;  // represents all numbers of MXFP4
    for (const auto& wanted : wanted_for(t)) {
      const auto place = places.find(wanted.name);
      const bool fresh = known.insert(wanted.name).second;
      if (place == places.end()) {
        if (fresh) missing.push_back(escaped(wanted.name));
        continue;
      }
      const auto& there = *place->second.tensor;
      const auto number = element_type(there.type);
      const bool right = wanted.bytes ? there.type == "U8" : number.has_value();
      if (!right || there.shape != wanted.shape) {
        if (fresh)
          wrong.push_back(fmt::format("{} is {}, not {} [{}]", escaped(wanted.name),
                                      described(there),
                                      right          ? there.type
                                      : wanted.bytes ? "U8"
                                                     : "F32, F16 or BF16",
                                      fmt::join(wanted.shape, ", ")));
        continue;
      }
      found.push_back(place->second);
      type = number.value_or(type);
    }
    if (found.empty() || (t.storage == TensorStorage::mxfp4 && found.size() < 2)) continue;
    tensors_.push_back({std::move(t), found.front(), found.back(), type});
  }
  names_ = known.size();
  const bool head_again = spec.config.tied && places.contains(std::string(hf_head));
  for (const auto& [name, _] : places) {
    const bool head = head_again && name == hf_head;
    if (known.contains(name)) continue;
    if (head || is_known_buffer(name))
      ++skipped_;
    else
      unknown.push_back(escaped(name));
  }
  std::string problems;
  const auto add = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    problems += fmt::format("{}{} {} {}: {}", problems.empty() ? "" : "; ", names.size(),
                            names.size() == 1 ? "tensor" : "tensors", what, some_of(names));
  };
  add("missing from the files", missing);
  add("unknown to this model", unknown);
  add("with a wrong shape or type", wrong);
  require(problems.empty(), "the weights in {} do not fit its config.json: {}",
          folder_.path().string(), problems);
  if (head_again) require_head_is_table();
}

// Throws Error unless the head equals the embedding table. Files may contain a tied head in
// addition to the table.
void HfWeights::require_head_is_table() const {
  const auto head = folder_.places().at(std::string(hf_head));
  const auto& table = tensors_.front().place;
  require(
      same_elements(*head.file, *head.tensor, *table.file, *table.tensor),
      "{} contains a tensor {} that differs from the embedding, but its config.json ties the two. "
      "Set 'tie_word_embeddings' in config.json to the value that the model was trained with",
      folder_.path().string(), hf_head);
}

DType HfWeights::master() const {
  const bool any =
      std::ranges::any_of(tensors_, [](const Source& s) { return s.type == ElementType::f64; });
  return any ? DType::f64 : DType::f32;
}

std::set<ElementType> HfWeights::types() const {
  std::set<ElementType> all;
  for (const auto& s : tensors_) all.insert(s.type);
  return all;
}

template <class T>
static void add_as(double x, std::span<std::byte> to) {
  auto* const first = reinterpret_cast<T*>(to.data());
  for (std::size_t i = 0; i < to.size() / sizeof(T); ++i)
    first[i] = static_cast<T>(static_cast<double>(first[i]) + x);
}
static void add(double x, DType dtype, std::span<std::byte> to) {
  dtype == DType::f64 ? add_as<double>(x, to) : add_as<float>(x, to);
}

void HfWeights::read(const std::string& param, std::int64_t first, DType dtype,
                     std::span<std::byte> to) {
  const auto size = static_cast<std::int64_t>(bytes_of(dtype));
  const auto count = static_cast<std::int64_t>(to.size()) / size;
  for (const auto i : of_param_.at(param)) {
    const auto& source = tensors_[i];
    const auto begin = std::max(first, source.tensor.begin);
    const auto end = std::min(first + count, source.tensor.begin + source.tensor.shape.count());
    if (begin >= end) continue;
    const auto part = to.subspan(static_cast<std::size_t>((begin - first) * size),
                                 static_cast<std::size_t>((end - begin) * size));
    const auto offset = begin - source.tensor.begin;
    if (source.tensor.storage == TensorStorage::columns) {
      if (kept_ != param) transpose(source, dtype);
      std::copy_n(whole_.begin() + begin * size, part.size(), part.begin());
    } else if (source.tensor.group > 0) {
      read_permuted(source, offset, dtype, part);
    } else {
      read_elements_of(source, offset, dtype, part);
    }
    if (source.tensor.plus != 0) add(source.tensor.plus, dtype, part);
  }
}

// Reads elements of a tensor whose rows have another order. `first` counts in the order of the
// parameter.
void HfWeights::read_permuted(const Source& source, std::int64_t first, DType dtype,
                              std::span<std::byte> to) {
  const auto size = bytes_of(dtype);
  const auto columns = source.tensor.columns();
  while (!to.empty()) {
    const auto row = first / columns, column = first % columns;
    const auto count = std::min(columns - column, static_cast<std::int64_t>(to.size() / size));
    const auto part = to.first(static_cast<std::size_t>(count) * size);
    read_elements_of(source, source.tensor.row_in_tensor(row) * columns + column, dtype, part);
    to = to.subspan(part.size());
    first += count;
  }
}

// Reads elements from index `first` of the tensor on.
void HfWeights::read_elements_of(const Source& source, std::int64_t first, DType dtype,
                                 std::span<std::byte> to) {
  first += source.tensor.expert * source.tensor.shape.count();
  if (source.tensor.storage == TensorStorage::mxfp4) {
    read_mxfp4(source, first, dtype, to);
  } else {
    const auto stored = bytes_of(source.type);
    stored_.resize(to.size() / bytes_of(dtype) * stored);
    source.place.file->read(*source.place.tensor, first * static_cast<std::int64_t>(stored),
                            stored_);
    read_elements(source.type, stored_, dtype, to);
  }
  const auto wrong = first_not_finite(to, dtype);
  require(!wrong, "{} of {} is not finite as {} at element {}, so the model cannot be trained",
          escaped(source.place.tensor->name), source.place.file->path().string(), name_of(dtype),
          first + static_cast<std::int64_t>(wrong.value_or(0)));
}

// Reads the blocks that contain the elements. `first` counts in the whole tensor.
void HfWeights::read_mxfp4(const Source& source, std::int64_t first, DType dtype,
                           std::span<std::byte> to) {
  const auto count = static_cast<std::int64_t>(to.size() / bytes_of(dtype));
  const auto begin = first / mxfp4::block, end = (first + count + mxfp4::block - 1) / mxfp4::block;
  const auto blocks = static_cast<std::size_t>(end - begin);
  stored_.resize(blocks * (mxfp4::code_bytes + 1));
  const auto codes = std::span(stored_).first(blocks * mxfp4::code_bytes),
             scales = std::span(stored_).last(blocks);
  source.place.file->read(*source.place.tensor, begin * mxfp4::code_bytes, codes);
  source.scales.file->read(*source.scales.tensor, begin, scales);
  std::vector<float> numbers(blocks * mxfp4::block);
  mxfp4::decode(codes, scales, numbers);
  const auto wanted = std::span(numbers).subspan(
      static_cast<std::size_t>(first - begin * mxfp4::block), static_cast<std::size_t>(count));
  read_elements(ElementType::f32, std::as_bytes(wanted), dtype, to);
}

void HfWeights::transpose(const Source& source, DType dtype) {
  if (dtype == DType::f64)
    transpose_as<double>(source);
  else
    transpose_as<float>(source);
  kept_ = source.tensor.param;
}

// Reads a weight that is stored as [in, out], and transposes it.
template <class T>
void HfWeights::transpose_as(const Source& source) {
  const auto in = static_cast<std::size_t>(source.tensor.shape[0]),
             out = static_cast<std::size_t>(source.tensor.shape[1]);
  whole_.resize(in * out * sizeof(T));
  auto* const whole = reinterpret_cast<T*>(whole_.data());
  constexpr std::size_t panel_rows = 16;  // about a cache line of each row of the result
  std::vector<T> panel(panel_rows * out);
  for (std::size_t row = 0; row < in; row += panel_rows) {
    const auto rows = std::min(panel_rows, in - row);
    read_elements_of(source, static_cast<std::int64_t>(row * out), dtype_of<T>,
                     std::as_writable_bytes(std::span(panel).first(rows * out)));
    for (std::size_t o = 0; o < out; ++o) {
      const auto from =
          static_cast<std::size_t>(source.tensor.row_in_tensor(static_cast<std::int64_t>(o)));
      for (std::size_t i = 0; i < rows; ++i) whole[o * in + row + i] = panel[i * out + from];
    }
  }
}

}  // namespace trireme
