#pragma once
// Host addresses reserved at once and opened as they are needed. What is closed counts neither as
// memory nor against the kernel's limit of what may be promised (vm.overcommit_memory = 2).
#include <cstddef>

namespace trireme {

class AddressRange {
 public:
  // Throws Error, saying which limit to raise.
  explicit AddressRange(std::size_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  std::byte* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  // Makes [begin(), begin() + end) readable and writable; never closes anything. Throws Error when
  // the system grants no more.
  void open_to(std::size_t end);

 private:
  std::byte* begin_;
  std::size_t bytes_, open_ = 0;
};

}  // namespace trireme
