#pragma once
// What tests of the communicator share: a backend, settings, and tensors of known numbers.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/comm/axes.hpp"
#include "lib/tensor/tensor.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/device_on_host.hpp"
#include "tests/support/values.hpp"

namespace trireme::test {

struct Setting {
  std::string backend;
  DType type;
  std::int64_t chunk;
  bool delays;
  TransportKind transport = TransportKind::host;
};
inline std::string name_of(const Setting& s) {
  return s.backend + "_" + std::string(trireme::name_of(s.type)) + "_" + std::to_string(s.chunk) +
         (s.delays ? "_delays" : "") + (s.transport == TransportKind::device ? "_devices" : "");
}
// All ranks, with counters of their own.
inline Communicator connected_world(TransportKind transport) {
  const auto c = world().split(0, world().rank());
  if (transport == TransportKind::device) c.connect(device_on_host);
  return c;
}
inline std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << name_of(s);
}

// The numbers that rank `rank` puts into a tensor, as its type holds them.
inline std::vector<double> numbers(std::int64_t n, int rank, DType t, std::uint64_t seed = 1) {
  auto values = random_values(n, seed * 1000 + static_cast<std::uint64_t>(rank));
  for (double& x : values) {
    if (t == DType::f32) x = static_cast<float>(x);
    if (t == DType::bf16) x = static_cast<float>(bf16(static_cast<float>(x)));
  }
  return values;
}

template <class T>
std::vector<T> cast(const std::vector<double>& values) {
  std::vector<T> out;
  for (const double x : values) out.push_back(static_cast<T>(static_cast<float>(x)));
  return out;
}
template <>
inline std::vector<double> cast<double>(const std::vector<double>& values) {
  return values;
}

template <class F>
auto with_type(DType t, const F& f) {
  if (t == DType::f64) return f(double{});
  if (t == DType::bf16) return f(bf16{});
  return f(float{});
}

inline void write(Backend& b, Queue q, const View& v, const std::vector<double>& values) {
  with_type(v.dtype, [&]<class T>(T) {
    const auto elements = cast<T>(values);
    b.upload(q, v, std::as_bytes(std::span(elements)));
  });
}

inline std::vector<double> read(Backend& b, Queue q, const View& v) {
  return with_type(v.dtype, [&]<class T>(T) {
    std::vector<T> elements(static_cast<std::size_t>(v.count()));
    b.download(q, std::as_writable_bytes(std::span(elements)), v);
    std::vector<double> values;
    for (const T x : elements)
      values.push_back(static_cast<double>(static_cast<double>([&] {
        if constexpr (std::is_same_v<T, bf16>)
          return static_cast<float>(x);
        else
          return x;
      }())));
    return values;
  });
}

class CollectiveTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    const auto& s = GetParam();
    world().configure({.chunk = s.chunk, .random_delays = s.delays ? 7U : 0U});
    backend_ = open_backend({s.backend, 1, true});
    comm_ = connected_world(s.transport);
  }

  Backend& backend() { return *backend_; }
  const Communicator& comm() const { return comm_; }
  DType type() const { return GetParam().type; }
  static int rank() { return world().rank(); }
  static int ranks() { return world().size(); }

  // On compute, with what the rank puts there; or without numbers.
  Tensor tensor(std::int64_t n, int of_rank, std::uint64_t seed = 1) {
    auto t = blank(n);
    write(*backend_, Queue::compute, t.view(), numbers(n, of_rank, type(), seed));
    return t;
  }
  Tensor blank(std::int64_t n, Queue first = Queue::compute) {
    return Tensor::empty(*backend_, {n}, type(), MemoryKind::transient, first);
  }
  // `q` sees what was put on compute.
  Queue after_compute(Queue q) {
    backend_->wait(q, backend_->record(Queue::compute));
    return q;
  }
  std::vector<double> values(const Tensor& t) { return read(*backend_, Queue::compute, t.view()); }

 private:
  std::unique_ptr<Backend> backend_;
  Communicator comm_;
};

}  // namespace trireme::test
