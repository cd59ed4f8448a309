#include "lib/io/checkpoint_reader.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/array_names.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/io/shard_file.hpp"
#include "lib/io/shard_reader.hpp"

namespace trireme {

namespace fs = std::filesystem;

std::string not_a_checkpoint(const fs::path& path) {
  std::error_code e;
  const auto name = path.string();
  if (!fs::exists(path, e)) return fmt::format("there is no {}: correct the path", name);
  if (fs::exists(path / "adapter_config.json", e))
    return fmt::format(
        "{} is an adapter in PEFT format: convert it with `trireme import {} NEW --base BASE`, "
        "where BASE is the checkpoint of its base model",
        name, name);
  if (fs::exists(path / "config.json", e))
    return fmt::format(
        "{} is a model in Hugging Face format: convert it with `trireme import {} NEW`", name,
        name);
  return fmt::format(
      "{} is neither a checkpoint (no {}) nor a run directory (no checkpoints): give a path that "
      "`trireme train` wrote",
      name, manifest_name);
}

static Manifest read_manifest(const fs::path& directory) {
  const auto path = directory / manifest_name;
  std::error_code e;
  if (!fs::exists(path, e)) {
    require(!fs::exists(directory / shard_name(0), e),
            "{} is not a complete checkpoint: {} is missing", directory.string(), manifest_name);
    fail("{}", not_a_checkpoint(directory));
  }
  return parse_manifest(read_text(path), path.string());
}

CheckpointReader::CheckpointReader(fs::path directory, WeightsRead weights)
    : directory_(std::move(directory)),
      manifest_(read_manifest(directory_)),
      weights_read_(weights) {
  const auto& files = manifest_.files;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const auto path = directory_ / files[f].name;
    std::error_code e;
    const auto size = fs::file_size(path, e);
    require(!e, "{} is damaged: {}: {}", directory_.string(), escaped(files[f].name), e.message());
    require(size == static_cast<std::uintmax_t>(files[f].size),
            "{} is damaged: {} has {} bytes instead of {}", directory_.string(),
            escaped(files[f].name), size, files[f].size);
    if (files[f].name == tokenizer_name) {
      manifest_.meta.tokenizer = read_text(path);
      require(hash128(manifest_.meta.tokenizer) == files[f].hash,
              "{} is damaged: {} does not match its hash", directory_.string(), files[f].name);
    }
    for (std::size_t s = 0; s < files[f].slices.size(); ++s) {
      const auto& slice = files[f].slices[s].slice;
      places_[{slice.name, slice.array}].push_back({f, s});
    }
  }
  for (auto& [_, places] : places_) {
    const auto begin = [&](const Place& p) { return files[p.file].slices[p.slice].slice.begin; };
    std::sort(places.begin(), places.end(), [&](auto& a, auto& b) { return begin(a) < begin(b); });
    const auto& any = files[places[0].file].slices[places[0].slice].slice;
    if (params_.empty() || params_.back().name != any.name)
      params_.push_back({any.name, any.shape, any.dtype, {}});
    // The shape of the parameter is that of its weights. Arrays of optimizers may have others.
    if (any.array == weights_array)
      params_.back().shape = any.shape;
    else
      params_.back().arrays.push_back(any.array);
  }
  require(!uses_averages() || has_averages(),
          "{} has no averaged weights: set train.ema in the deck of the run, or leave out --ema",
          directory_.string());
}

std::vector<std::string> CheckpointReader::arrays_of(const std::string& name) const {
  const auto found = std::ranges::lower_bound(params_, name, {}, &ParamInfo::name);
  if (found == params_.end() || found->name != name) return {};
  return found->arrays;
}

Shape CheckpointReader::shape_of(const std::string& name, std::string_view array) const {
  const auto& place = places_of(name, array)[0];
  return manifest_.files[place.file].slices[place.slice].slice.shape;
}

bool CheckpointReader::has_averages() const {
  return std::ranges::any_of(params_, [](const ParamInfo& p) {
    return std::ranges::find(p.arrays, average_array) != p.arrays.end();
  });
}

Hash128 CheckpointReader::identity_of_weights() const {
  std::string all;
  for (const auto& p : params_) {
    all += fmt::format("{} {} {}\n", p.name, to_string(p.shape), name_of(p.dtype));
    for (const auto& place : places_of(p.name, weights_array)) {
      const auto& record = manifest_.files[place.file].slices[place.slice];
      all += fmt::format("{} {} {}", record.slice.begin, record.slice.count, record.chunk_elements);
      for (const auto& chunk : record.chunks) all += " " + to_string(chunk.hash);
      all += "\n";
    }
  }
  return hash128(all);
}

std::string CheckpointReader::model_differences(
    const std::vector<std::pair<std::string, Shape>>& model) const {
  std::vector<std::string> differences;
  std::map<std::string, Shape> saved;
  for (const auto& p : params_) saved[p.name] = p.shape;
  for (const auto& [name, shape] : model) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      differences.push_back(name + " is missing");
      continue;
    }
    if (found->second != shape) {
      differences.push_back(fmt::format("{} is {} instead of {}", escaped(name),
                                        to_string(found->second), to_string(shape)));
    }
    saved.erase(found);
  }
  for (const auto& [name, shape] : saved) differences.push_back(escaped(name) + " is unexpected");
  const auto shown = std::min<std::size_t>(differences.size(), 3);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i ? "; " : "") + differences[i];
  if (shown < differences.size()) {
    text += fmt::format("; and {} more", differences.size() - shown);
  }
  return text;
}

void CheckpointReader::require_model(
    const std::vector<std::pair<std::string, Shape>>& model) const {
  const auto differences = model_differences(model);
  require(differences.empty(),
          "{0} contains another model: {1} -- use the sections [model], [adapter] and "
          "[[adapter_rank]] that `trireme "
          "inspect {0}` prints, or another run directory",
          directory_.string(), differences);
}

const std::vector<CheckpointReader::Place>& CheckpointReader::places_of(
    const std::string& name, std::string_view array) const {
  if (uses_averages() && array == weights_array)
    if (const auto average = places_.find({name, std::string(average_array)});
        average != places_.end())
      return average->second;
  const auto found = places_.find({name, std::string(array)});
  require(found != places_.end(), "{} does not contain {}/{} (it contains {} parameters)",
          directory_.string(), array, name, params_.size());
  return found->second;
}

const PosixFile& CheckpointReader::open(std::size_t file) {
  constexpr std::size_t most_open = 64;  // far below the usual limit of file descriptors
  const auto found = opened_.find(file);
  if (found != opened_.end()) return found->second;
  if (opened_.size() >= most_open) opened_.clear();
  // Without this check, elements of one parameter could be loaded as those of another.
  if (!compared_.contains(file)) {
    const auto wrong = contradiction(file, Check::metadata);
    require(wrong.empty(), "{} is damaged: {}", directory_.string(), wrong);
    compared_.insert(file);
  }
  return opened_.emplace(file, PosixFile::open(directory_ / manifest_.files[file].name))
      .first->second;
}

void CheckpointReader::read(const std::string& name, std::string_view array, std::int64_t begin,
                            std::int64_t count, std::span<std::byte> out) {
  const auto& places = places_of(name, array);
  const auto& any = manifest_.files[places[0].file].slices[places[0].slice].slice;
  const auto bytes = static_cast<std::int64_t>(bytes_of(any.dtype));
  require(static_cast<std::int64_t>(out.size()) == count * bytes,
          "a buffer of {} bytes has the wrong size for {} elements of {} in {}", out.size(), count,
          name, name_of(any.dtype));
  read(name, array, begin, count, [&](std::int64_t first, std::span<const std::byte> elements) {
    std::memcpy(out.data() + (first - begin) * bytes, elements.data(), elements.size());
  });
}

void CheckpointReader::read(const std::string& name, std::string_view array, std::int64_t begin,
                            std::int64_t count, const Sink& sink) {
  const auto& places = places_of(name, array);
  const auto& any = manifest_.files[places[0].file].slices[places[0].slice].slice;
  require(begin >= 0 && count >= 0 && begin <= any.shape.count() - count,
          "elements [{}, {}) are not within the parameter {} {}", begin, begin + count, name,
          to_string(any.shape));
  for (const auto& place : places) {
    const auto& s = manifest_.files[place.file].slices[place.slice].slice;
    const auto from = std::max(begin, s.begin);
    const auto to = std::min(begin + count, s.begin + s.count);
    if (from < to) read_slice(place, from - s.begin, to - from, sink);
  }
}

void CheckpointReader::expect(const std::string& name, std::string_view array, std::int64_t begin,
                              std::int64_t count) {
  for (const auto& place : places_of(name, array)) {
    const auto& record = manifest_.files[place.file].slices[place.slice];
    const auto& s = record.slice;
    const auto from = std::max(begin, s.begin), to = std::min(begin + count, s.begin + s.count);
    if (from >= to) continue;
    const auto first = static_cast<std::size_t>((from - s.begin) / record.chunk_elements);
    const auto last = static_cast<std::size_t>((to - 1 - s.begin) / record.chunk_elements);
    for (auto i = first; i <= std::min(last, first + 1); ++i)
      open(place.file).start_readahead(record.chunks[i].at, chunk_bytes(record, i));
    return;
  }
}

// Passes `count` elements of a slice to `sink`, chunk by chunk. `begin` counts from the slice's
// first element.
void CheckpointReader::read_slice(const Place& place, std::int64_t begin, std::int64_t count,
                                  const Sink& sink) {
  const auto& record = manifest_.files[place.file].slices[place.slice];
  const auto bytes = static_cast<std::int64_t>(bytes_of(record.slice.dtype));
  const auto& file = open(place.file);
  chunk_.resize(static_cast<std::size_t>(max_chunk_bytes));
  const auto end = begin + count;
  for (auto at = begin; at < end;) {
    const auto i = at / record.chunk_elements, first = i * record.chunk_elements;
    const auto& chunk = record.chunks[static_cast<std::size_t>(i)];
    const auto size = chunk_bytes(record, static_cast<std::size_t>(i));
    // A hash covers a whole chunk. While it is computed, the disk reads the chunk after the next
    // one.
    const auto whole = std::span(chunk_).first(static_cast<std::size_t>(size));
    const auto ahead = static_cast<std::size_t>(i) + 2;
    if (first + 2 * record.chunk_elements < end)
      file.start_readahead(record.chunks[ahead].at, chunk_bytes(record, ahead));
    file.read_at(whole, chunk.at);
    bytes_read_ += size;
    require(hash128(whole) == chunk.hash,
            "{} is damaged: chunk {} of {}/{} in {} does not match its hash (it changed on disk, "
            "or the file belongs to another checkpoint)",
            directory_.string(), i, record.slice.array, escaped(record.slice.name),
            escaped(manifest_.files[place.file].name));
    const auto n = std::min(end, first + size / bytes) - at;
    sink(record.slice.begin + at, whole.subspan(static_cast<std::size_t>((at - first) * bytes),
                                                static_cast<std::size_t>(n * bytes)));
    at += n;
  }
}

std::string CheckpointReader::contradiction(std::size_t file, Check check) const {
  const auto& record = files()[file];
  if (record.rank < 0) return {};
  try {
    const auto wrong = contradiction_in(directory_ / record.name, manifest_, record, check);
    return wrong.empty() ? wrong : fmt::format("{}: {}", escaped(record.name), wrong);
  } catch (const Error& e) {
    return e.what();
  }
}

std::vector<std::string> CheckpointReader::verify(Check check, int index, int of) const {
  std::vector<std::string> problems;
  for (auto i = static_cast<std::size_t>(index); i < files().size();
       i += static_cast<std::size_t>(of)) {
    auto found = verify_file(directory_, files()[i], check);
    if (found.empty() && check != Check::sizes) {
      auto wrong = contradiction(i, check);
      if (!wrong.empty()) found.push_back(std::move(wrong));
    }
    std::ranges::move(found, std::back_inserter(problems));
  }
  return problems;
}

}  // namespace trireme
