#pragma once
// A lock's file as it is at one moment.
#include <filesystem>
#include <string>
#include <utility>

namespace trireme {

// Owns it.
class Descriptor {
 public:
  explicit Descriptor(int n = -1) : n_(n) {}
  Descriptor(Descriptor&& other) noexcept : n_(std::exchange(other.n_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(n_, other.n_);
    return *this;
  }
  ~Descriptor();
  int get() const { return n_; }
  explicit operator bool() const { return n_ >= 0; }

 private:
  int n_;
};

// To read and to lock. None where there is no such name. Opened anew for every look, as a network
// file system then asks its server, and never through a link. Error for what is no regular file.
Descriptor open_lock(const std::filesystem::path&);

// `path` names it in messages.
std::string read_all(const Descriptor&, const std::filesystem::path&);

}  // namespace trireme
