#pragma once
// Tensor: shared ownership of a block of a backend's memory, with a shape. No arithmetic. Copies
// share the block; the last one frees it, to be reused after all work that is on the compute queue
// by then and after the events given to used().
#include <array>
#include <cstdint>
#include <memory>

#include "kernels/backend.hpp"

namespace trireme {

class Tensor {
 public:
  Tensor() = default;  // absent
  static Tensor empty(Backend&, const Shape&, DType, Kind, Queue first = Queue::compute,
                      Memory = Memory::device);

  explicit operator bool() const { return bool(storage_); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  View view() const;  // absent tensor: absent view
  // No other Tensor shares the memory: it may be overwritten in place.
  bool unique() const { return storage_.use_count() == 1; }
  // Shares the memory: the elements from `begin` on as `shape`.
  Tensor slice(std::int64_t begin, const Shape&) const;
  Tensor reshaped(const Shape& s) const { return slice(0, s); }
  // A queue other than compute uses it until `e`.
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
  std::int64_t offset_ = 0;  // bytes
};

// The scratch memory of a backend's kernels: taken once, lent to the backend while this lives.
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
