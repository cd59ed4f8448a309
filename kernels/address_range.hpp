#pragma once
// A range of host addresses that is reserved once and made accessible step by step. Inaccessible
// addresses use no memory and do not count against the kernel's commit limit (vm.overcommit_memory
// = 2).
#include <cstddef>

namespace trireme {

// Owner of a reserved range of host addresses. Addresses become accessible in ascending order.
class AddressRange {
 public:
  // Reserves `bytes` bytes of addresses, all of them inaccessible. If the reservation fails, throws
  // Error, which names the limit to raise.
  explicit AddressRange(std::size_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  std::byte* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  // Makes [begin(), begin() + end) readable and writable. Pages that are already accessible stay
  // accessible. Throws Error if the system grants no more memory.
  void open_to(std::size_t end);

 private:
  std::byte* begin_;
  std::size_t bytes_, open_ = 0;
};

}  // namespace trireme
