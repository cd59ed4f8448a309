#pragma once
// Tensor: shared ownership of a block of a backend's memory, seen through a shape. No arithmetic.
// Copies share; the block is given back when the last copy goes, after everything put on compute
// until then and after the events reported with used().
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
  // Nobody else holds the memory: it may be overwritten in place.
  bool unique() const { return storage_.use_count() == 1; }
  // Shares the memory: the elements from `begin` on as `shape`.
  Tensor slice(std::int64_t begin, const Shape&) const;
  Tensor reshaped(const Shape& s) const { return slice(0, s); }
  // A queue other than compute reads or writes it until `e`.
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

// The scratch that a backend's kernels need at all times: taken once, lent while this lives.
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
