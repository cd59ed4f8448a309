#include "kernels/cuda/runtime/guarded.hpp"

#include "lib/base/error.hpp"

namespace trireme::cuda {

std::byte* GuardedDevice::take(std::size_t bytes, std::size_t name, Runtime::Stream stream) {
  const auto place = guarded_place(bytes, page_);
  const Mapped m{runtime_.reserve(place.reserved(page_)) + page_, bytes, name, place};
  try {
    runtime_.back(m.at, place.pages);
    const auto know = [&](std::size_t begin, std::size_t end) {
      if (begin < end)
        runtime_.set_bytes(m.at + begin, std::to_integer<unsigned char>(known_byte), end - begin,
                           stream);
    };
    know(place.watched_from, place.begin);
    know(place.end, place.pages);
  } catch (const Error&) {
    release(m);
    throw;
  }
  auto* const data = m.at + place.begin;
  blocks_.emplace(data, m);
  return data;
}

std::vector<std::byte> GuardedDevice::read(const Mapped& m, std::size_t begin, std::size_t end,
                                           Runtime::Stream stream) {
  std::vector<std::byte> bytes(end - begin);
  if (bytes.empty()) return bytes;
  runtime_.copy_to_host(bytes.data(), m.at + begin, bytes.size(), stream);
  runtime_.synchronize(stream);
  return bytes;
}

std::size_t GuardedDevice::give(const Block& b, Runtime::Stream stream) noexcept {
  const auto it = blocks_.find(b.data);
  const auto m = it->second;
  try {
    const auto before = read(m, m.place.watched_from, m.place.begin, stream);
    const auto behind = read(m, m.place.end, m.place.pages, stream);
    if (const auto what = guard_damage(before, behind, m.bytes, b.kind)) end_for_damage(*what);
  } catch (const Error&) {  // a wait for the device's work reports the failure
  }
  release(m);
  blocks_.erase(it);
  return m.name;
}

void GuardedDevice::release(const Mapped& m) noexcept {
  runtime_.release(m.at - page_, m.place.reserved(page_), page_ + m.place.pages);
}

GuardedDevice::~GuardedDevice() {
  for (const auto& [data, m] : blocks_) release(m);
}

}  // namespace trireme::cuda
