#pragma once
// Tensor: a block of backend memory with a shape and an element type. Copies share the block. The
// last copy frees it; the backend reuses the memory only after all work enqueued on the compute
// queue by then and after the events passed to used(). A Tensor has no arithmetic.
#include <array>
#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"

namespace trireme {

// Shared ownership of a block of backend memory, seen through a shape. Default-constructed tensors
// are absent: they have no memory.
class Tensor {
 public:
  Tensor() = default;
  // Allocates an uninitialized tensor. `Kind` is the entry of the memory account that it counts in.
  // `first` is the queue that uses it first.
  static Tensor empty(Backend&, const Shape&, DType, Kind, Queue first = Queue::compute,
                      Memory = Memory::device);

  explicit operator bool() const { return bool(storage_); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // Returns a view of the elements, which does not own them. An absent tensor gives an absent view.
  View view() const;
  // Returns true if no other Tensor shares the memory, which may then be overwritten in place.
  bool unique() const { return storage_.use_count() == 1; }
  // Returns a tensor with the given shape that shares the memory. Its first element is element
  // `begin` of this tensor.
  Tensor slice(std::int64_t begin, const Shape&) const;
  Tensor reshaped(const Shape& s) const { return slice(0, s); }
  // Records that a queue other than compute uses the memory until event `e`.
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

// Scratch memory for a backend's kernels. The constructor allocates it and lends it to the backend;
// the destructor takes it back and frees it.
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
