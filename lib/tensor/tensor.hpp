#pragma once
// Tensor: a block of backend memory with a shape and an element type. Copies share the block, and
// the last copy frees it. The backend reuses the memory only after the events passed to used() and
// after all work that was on the compute queue when the block was freed. A Tensor has no
// arithmetic.
#include <array>
#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"

namespace trireme {

// Shared owner of a block of backend memory, with a shape. A default-constructed tensor is absent:
// it has no memory.
class Tensor {
 public:
  Tensor() = default;
  // Allocates an uninitialized tensor. `MemoryKind` is the kind of memory under which the memory
  // account counts it. `first` is the first queue that uses the memory.
  static Tensor empty(Backend&, const Shape&, DType, MemoryKind, Queue first = Queue::compute,
                      Memory = Memory::device);

  explicit operator bool() const { return bool(storage_); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // Returns a view of the elements. The view does not own the memory. The view of an absent tensor
  // is absent.
  View view() const;
  // Returns true if no other Tensor shares the memory. The memory may then be overwritten in place.
  bool unique() const { return storage_.use_count() == 1; }
  // Returns a tensor with the given shape that shares this tensor's memory. Its first element is
  // element `begin` of this tensor.
  Tensor slice(std::int64_t begin, const Shape&) const;
  Tensor reshaped(const Shape& s) const { return slice(0, s); }
  // Records that a queue other than compute uses the memory until event `e` has passed.
  void used(Event e) const;

 private:
  struct Storage {
    Backend& backend;
    Block block;
    std::array<std::uint64_t, queue_count> last{};
    Storage(Backend& b, const Block& k) : backend(b), block(k) {}
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
    ~Storage();
  };
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  DType dtype_ = DType::f32;
  std::int64_t offset_ = 0;  // in bytes
};

// Scratch memory for a backend's kernels. The constructor allocates the memory and lends it to the
// backend. The destructor takes it back and frees it.
class Workspace {
 public:
  explicit Workspace(Backend&);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

 private:
  Backend& backend_;
  Tensor block_;
};

}  // namespace trireme
