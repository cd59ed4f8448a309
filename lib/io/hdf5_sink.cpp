#include "lib/io/hdf5_sink.hpp"

#include <algorithm>
#include <cstring>

namespace trireme {

// Number of bytes after which write-back starts. Starting it early overlaps it with hashing. The
// pieces are large enough for a disk array.
constexpr std::int64_t writeback_bytes = std::int64_t{32} << 20;
// Fewer bytes are written by this thread, because that is faster than starting another thread.
constexpr std::size_t behind_bytes = 256 << 10;

static std::mutex& hdf5_in_use() {
  static std::mutex mutex;
  return mutex;
}

Hdf5Sink::Hdf5Sink(PosixFile& file, std::span<const std::byte> old)
    : turn_of_hdf5_(hdf5_in_use()), file_(&file), old_size_(file.size()), old_(old) {}

void Hdf5Sink::keep(const std::exception& e) noexcept {
  if (error_.empty()) error_ = e.what();
}

void Hdf5Sink::check() const {
  require(error_.empty(), "{}", error_);
}

void Hdf5Sink::finish() {
  join();
  check();
}

std::span<std::byte> Hdf5Sink::staging(std::size_t bytes) {
  auto& s = staging_[turn_];
  if (s.size() < bytes) s.resize(bytes);
  return std::span(s).first(bytes);
}

void Hdf5Sink::join() noexcept {
  try {
    behind_.join();
  } catch (const std::exception& e) {
    keep(e);
  }
}

void Hdf5Sink::write(std::span<const std::byte> bytes, std::int64_t offset) noexcept {
  join();
  end_ = std::max(end_, offset + static_cast<std::int64_t>(bytes.size()));
  if (!error_.empty()) return;
  const bool staged = bytes.data() == staging_[turn_].data();
  try {
    if (staged && bytes.size() >= behind_bytes) {
      behind_.start([this, bytes, offset] { store_if_changed(bytes, offset); });
      turn_ = 1 - turn_;
    } else if (staged) {
      store_if_changed(bytes, offset);
    } else {
      store(bytes, offset);
    }
  } catch (const std::exception& e) {
    keep(e);
  }
}

// Writes zeros where the file has old content between the end of all earlier writes and `offset`.
void Hdf5Sink::clear_old_up_to(std::int64_t offset) {
  static constexpr std::array<std::byte, 4096> zeros{};
  for (const auto end = std::min(offset, old_size_); cleared_ < end;) {
    const auto n = std::min<std::int64_t>(end - cleared_, std::ssize(zeros));
    file_->write_at(std::span(zeros).first(static_cast<std::size_t>(n)), cleared_);
    cleared_ += n;
  }
}

void Hdf5Sink::store(std::span<const std::byte> bytes, std::int64_t offset) {
  clear_old_up_to(offset);
  file_->write_at(bytes, offset);
  const auto end = offset + static_cast<std::int64_t>(bytes.size());
  cleared_ = std::max(cleared_, end);
  if (end - written_back_ < writeback_bytes) return;
  file_->start_writeback(written_back_, end - written_back_);
  written_back_ = end;
}

// HDF5 writes each chunk once, so a range that is left out here stays unchanged. HDF5 may write its
// own structures several times, so these are always written.
void Hdf5Sink::store_if_changed(std::span<const std::byte> bytes, std::int64_t offset) {
  const auto end = offset + std::ssize(bytes);
  const bool same =
      end <= std::ssize(old_) && std::memcmp(old_.data() + offset, bytes.data(), bytes.size()) == 0;
  if (!same) return store(bytes, offset);
  clear_old_up_to(offset);
  cleared_ = std::max(cleared_, end);
  unchanged_.push_back({offset, end});
}

bool Hdf5Sink::read(std::span<std::byte> out, std::int64_t offset) noexcept {
  join();
  std::fill(out.begin(), out.end(), std::byte{0});
  try {
    const auto end = old_size_ > cleared_ ? cleared_ : file_->size();
    const auto there =
        std::clamp<std::int64_t>(end - offset, 0, static_cast<std::int64_t>(out.size()));
    file_->read_at(out.first(static_cast<std::size_t>(there)), offset);
  } catch (const std::exception& e) {
    keep(e);
    return false;
  }
  return true;
}

void Hdf5Sink::resize(std::int64_t bytes) noexcept {
  join();
  end_ = bytes;
  if (!error_.empty()) return;
  try {
    clear_old_up_to(bytes);
    file_->resize(bytes);
  } catch (const std::exception& e) {
    keep(e);
  }
}

namespace {

struct DriverFile {
  H5FD_t shared;  // HDF5's part; must come first
  Hdf5Sink* sink;
  haddr_t end_of_address_space;
};

DriverFile& as_driver_file(H5FD_t* f) {
  return *reinterpret_cast<DriverFile*>(f);
}
const DriverFile& as_driver_file(const H5FD_t* f) {
  return *reinterpret_cast<const DriverFile*>(f);
}

H5FD_t* open_file(const char*, unsigned, hid_t access, haddr_t) {
  const auto* sink = static_cast<Hdf5Sink* const*>(H5Pget_driver_info(access));
  return sink ? &(new DriverFile{{}, *sink, 0})->shared : nullptr;
}

herr_t close_file(H5FD_t* f) {
  delete &as_driver_file(f);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t get_eoa(const H5FD_t* f, H5FD_mem_t) {
  return as_driver_file(f).end_of_address_space;
}

herr_t set_eoa(H5FD_t* f, H5FD_mem_t, haddr_t address) {
  as_driver_file(f).end_of_address_space = address;
  return 0;
}

haddr_t get_eof(const H5FD_t* f, H5FD_mem_t) {
  return static_cast<haddr_t>(as_driver_file(f).sink->end());
}

herr_t read_bytes(H5FD_t* f, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* out) {
  return as_driver_file(f).sink->read({static_cast<std::byte*>(out), size},
                                      static_cast<std::int64_t>(address))
             ? 0
             : -1;
}

herr_t write_bytes(H5FD_t* f, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* bytes) {
  as_driver_file(f).sink->write({static_cast<const std::byte*>(bytes), size},
                                static_cast<std::int64_t>(address));
  return 0;
}

herr_t truncate_file(H5FD_t* f, hid_t, hbool_t) {
  const auto& file = as_driver_file(f);
  file.sink->resize(static_cast<std::int64_t>(file.end_of_address_space));
  return 0;
}

// Sets the fields that HDF5 requires from version 1.14 on: the version of the driver's table, and a
// number of the driver. The numbers 256 to 511 are free for programs.
template <class Class>
void state_version(Class& c) {
  if constexpr (requires { c.version; }) {
    c.version = 1;
    c.value = static_cast<decltype(c.value)>(417);
  }
}

hid_t driver() {
  static const hid_t id = [] {
    H5FD_class_t c{};
    state_version(c);
    c.name = "trireme_sink";
    c.maxaddr = static_cast<haddr_t>(INT64_MAX);
    c.fc_degree = H5F_CLOSE_STRONG;
    c.fapl_size = sizeof(Hdf5Sink*);
    c.open = open_file;
    c.close = close_file;
    c.query = query;
    c.get_eoa = get_eoa;
    c.set_eoa = set_eoa;
    c.get_eof = get_eof;
    c.read = read_bytes;
    c.write = write_bytes;
    c.truncate = truncate_file;
    constexpr H5FD_mem_t free_lists[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(free_lists), std::end(free_lists), c.fl_map);
    return H5FDregister(&c);
  }();
  return id;
}

}  // namespace

Hdf5Handle Hdf5Sink::create() {
  silence_hdf5();
  const auto& path = file_->path();
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate", path);
  Hdf5Sink* self = this;
  hdf5_ok(H5Pset_driver(access, hdf5_ok(driver(), "H5FDregister", path), &self), "H5Pset_driver",
          path);
  hdf5_ok(H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST),
          "H5Pset_libver_bounds", path);
  hdf5_ok(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), "H5Pset_fclose_degree", path);
  // Metadata stays in memory until the file closes. It is then contiguous, and HDF5 never reads
  // back what a failed write did not store.
  H5AC_cache_config_t cache;
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  hdf5_ok(H5Pget_mdc_config(access, &cache), "H5Pget_mdc_config", path);
  cache.evictions_enabled = false;
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  cache.decr_mode = H5C_decr__off;
  hdf5_ok(H5Pset_mdc_config(access, &cache), "H5Pset_mdc_config", path);
  return Hdf5Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose,
                    "H5Fcreate", path);
}

}  // namespace trireme
