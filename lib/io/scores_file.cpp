#include "lib/io/scores_file.hpp"

#include <algorithm>

#include "lib/base/draft.hpp"
#include "lib/base/hash.hpp"
#include "lib/base/limits.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/io/hdf5_attribute.hpp"
#include "lib/io/hdf5_sink.hpp"

namespace trireme {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t scores_format = 1;
constexpr const char* hash_attribute = "xxh3_128";
constexpr std::string_view trailer_begin = "xxh3_128 ";
constexpr std::int64_t trailer_bytes = 9 + 32 + 1;  // trailer_begin, 32 hex digits, a newline

std::string trailer_of(const PosixFile& file, std::int64_t bytes) {
  Hasher hasher;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < bytes;) {
    const auto part =
        std::span(piece).first(static_cast<std::size_t>(std::min(std::ssize(piece), bytes - at)));
    file.read_at(part, at);
    hasher.update(part);
    at += std::ssize(part);
  }
  return fmt::format("{}{}\n", trailer_begin, to_string(hasher.digest()));
}

// HDF5 itself reads beyond its buffers where metadata are damaged, so that it is given only files
// that are as they were written.
void require_whole(const fs::path& path) {
  const auto file = PosixFile::open(path);
  const auto bytes = std::max<std::int64_t>(0, file.size() - trailer_bytes);
  std::string trailer(static_cast<std::size_t>(file.size() - bytes), '\0');
  file.read_at(std::as_writable_bytes(std::span(trailer)), bytes);
  require(trailer.starts_with(trailer_begin),
          "it does not end with the hash of its bytes. It is incomplete, or an earlier version of "
          "the program made it: remove it and make it again with `trireme score`");
  require(trailer == trailer_of(file, bytes),
          "its bytes do not match the hash at its end. It is damaged: remove it and make it again "
          "with `trireme score`");
}

template <class T>
hid_t stored_type() {
  return std::is_same_v<T, double> ? H5T_IEEE_F64LE : H5T_STD_I64LE;
}

template <class T>
void write_values(hid_t group, const char* name, const std::vector<T>& values,
                  const fs::path& path) {
  const hsize_t n = values.size();
  const auto dataset =
      create_dataset(group, name, stored_type<T>(), hdf5_space({&n, 1}, path), H5P_DEFAULT, path);
  hdf5_ok(H5Dwrite(dataset, stored_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "H5Dwrite", path);
}

template <class T>
std::vector<T> read_values(hid_t group, const char* name, const fs::path& path) {
  const Hdf5Handle dataset(H5Dopen2(group, name, H5P_DEFAULT), H5Dclose, "H5Dopen2", path);
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "H5Dget_space", path);
  const auto n = hdf5_ok(H5Sget_simple_extent_npoints(space), "H5Sget_simple_extent_npoints", path);
  const auto all = H5Dget_storage_size(dataset), most = hsize_t{fs::file_size(path)} / sizeof(T);
  require(static_cast<hsize_t>(n) <= most && all == static_cast<hsize_t>(n) * sizeof(T),
          "its dataset '{}' has a wrong size", name);
  std::vector<T> values(static_cast<std::size_t>(n));
  hdf5_ok(H5Dread(dataset, stored_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "H5Dread", path);
  return values;
}

std::string read_text_attribute(hid_t object, const char* name, const fs::path& path) {
  const Hdf5Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, "H5Aopen", path);
  const Hdf5Handle type(H5Aget_type(attribute), H5Tclose, "H5Aget_type", path);
  constexpr std::size_t most = 1 << 16;
  const auto size = H5Tget_size(type);
  require(H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 && size <= most,
          "its attribute '{}' is not a text", name);
  std::string text(size, '\0');
  hdf5_ok(H5Aread(attribute, type, text.data()), "H5Aread", path);
  return text.substr(0, text.find('\0'));
}

std::int64_t read_number(hid_t object, const char* name, const fs::path& path) {
  const Hdf5Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, "H5Aopen", path);
  const Hdf5Handle space(H5Aget_space(attribute), H5Sclose, "H5Aget_space", path);
  require(H5Sget_simple_extent_npoints(space) == 1, "its attribute '{}' is not a number", name);
  std::int64_t value = 0;
  hdf5_ok(H5Aread(attribute, H5T_NATIVE_INT64, &value), "H5Aread", path);
  return value;
}

FileLosses read_file(hid_t files, const std::string& name, const fs::path& path) {
  const Hdf5Handle group(H5Gopen2(files, name.c_str(), H5P_DEFAULT), H5Gclose, "H5Gopen2", path);
  return {read_text_attribute(group, "file", path), read_text_attribute(group, "identity", path),
          read_values<std::int64_t>(group, "begin", path),
          read_values<std::int64_t>(group, "inputs", path),
          read_values<double>(group, "loss", path)};
}

ReferenceLosses read_all(const fs::path& path) {
  const Hdf5Handle hdf5 = open_hdf5(path);
  require(H5Aexists(hdf5, "format") > 0 && H5Lexists(hdf5, "files", H5P_DEFAULT) > 0,
          "it contains no scores");
  const auto version = read_number(hdf5, "format", path);
  require(version == scores_format, "it has format {}, which this version of Trireme cannot read",
          version);
  ReferenceLosses all;
  all.source = path.string();
  all.model = read_text_attribute(hdf5, "model", path);
  all.checkpoint = read_text_attribute(hdf5, "checkpoint", path);
  all.compute = read_text_attribute(hdf5, "compute", path);
  all.context = read_number(hdf5, "context", path);
  const Hdf5Handle files(H5Gopen2(hdf5, "files", H5P_DEFAULT), H5Gclose, "H5Gopen2", path);
  H5G_info_t info{};
  hdf5_ok(H5Gget_info(files, &info), "H5Gget_info", path);
  for (hsize_t i = 0; i < info.nlinks; ++i)
    all.files.push_back(read_file(files, fmt::format("{}", i), path));
  for (const auto& f : all.files)
    require(f.inputs_D.size() == f.begin_D.size() && f.loss_D.size() == f.begin_D.size(),
            "its datasets have different lengths");
  require(read_text_attribute(hdf5, hash_attribute, path) == scores_hash(all),
          "its contents do not match its hash: it is damaged");
  return all;
}

}  // namespace

bool is_hdf5_file(const fs::path& path) {
  silence_hdf5();
  return fs::is_regular_file(path) && H5Fis_hdf5(path.c_str()) > 0;
}

std::string scores_hash(const ReferenceLosses& all) {
  Hasher hasher;
  const auto text = [&](const std::string& t) {
    const auto n = t.size();
    hasher.update(std::as_bytes(std::span(&n, 1)));
    hasher.update(std::as_bytes(std::span(t)));
  };
  text(all.model);
  text(all.compute);
  text(fmt::format("{}", all.context));
  for (const auto& f : all.files) {
    text(f.identity);
    hasher.update(std::as_bytes(std::span(f.begin_D)));
    hasher.update(std::as_bytes(std::span(f.inputs_D)));
    hasher.update(std::as_bytes(std::span(f.loss_D)));
  }
  return to_string(hasher.digest());
}

void write_scores(const fs::path& target, const ReferenceLosses& all) {
  silence_hdf5();
  Draft draft(target);
  const auto& path = draft.path();
  auto file = PosixFile::create(path);
  Hdf5Sink sink(file);
  try {
    auto hdf5 = sink.create();
    set_number(hdf5, "format", scores_format, path);
    set_attribute(hdf5, "model", all.model, path);
    set_attribute(hdf5, "checkpoint", all.checkpoint, path);
    set_attribute(hdf5, "compute", all.compute, path);
    set_number(hdf5, "context", all.context, path);
    set_attribute(hdf5, hash_attribute, scores_hash(all), path);
    auto files = create_group(hdf5, "files", path);
    for (std::size_t i = 0; i < all.files.size(); ++i) {
      const auto& f = all.files[i];
      auto group = create_group(files, fmt::format("{}", i), path);
      set_attribute(group, "file", f.file, path);
      set_attribute(group, "identity", f.identity, path);
      write_values(group, "begin", f.begin_D, path);
      write_values(group, "inputs", f.inputs_D, path);
      write_values(group, "loss", f.loss_D, path);
      group.close("H5Gclose", path);
    }
    files.close("H5Gclose", path);
    hdf5.close("H5Fclose", path);
    sink.finish();
  } catch (const Error&) {
    sink.check();  // first, as a failed write is the cause of what HDF5 reports
    throw;
  }
  const auto bytes = file.size();
  const auto trailer = trailer_of(file, bytes);
  file.write_at(std::as_bytes(std::span(trailer)), bytes);
  file.sync();
  draft.publish();
}

ReferenceLosses read_scores(const fs::path& path) {
  silence_hdf5();
  require(is_there(path), "{} does not exist yet: create it with `trireme score` and this deck",
          path.string());
  require(is_hdf5_file(path), "{} is not a scores file: it is {}", path.string(),
          fs::is_directory(path) ? "a directory" : "not HDF5");
  try {
    require_whole(path);
    return read_all(path);
  } catch (const Error& e) {
    fail("{} cannot be read as a scores file: {}", path.string(), e.what());
  }
}

}  // namespace trireme
