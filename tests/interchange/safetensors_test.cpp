// Headers as they are and as they must not be.
#include "lib/interchange/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "lib/base/error.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {

static std::string with_length(std::uint64_t length, const std::string& header,
                               std::size_t data = 0) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data, 'x');
}
static std::string whole(const std::string& header, std::size_t data) {
  return with_length(header.size(), header, data);
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const ScratchFolder folder;
  std::vector<std::byte> bytes(3 * 4 + 2 * 2 * 5);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  SafetensorsWriter writer(folder / "f",
                           {{"z", "F32", {3}}, {"a", "BF16", {2, 5}}, {"s", "F32", {0}}});
  writer.append(std::span(bytes).first(7));
  writer.append(std::span(bytes).subspan(7));
  writer.finish();

  const SafetensorsFile file(folder / "f");
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "z");
  EXPECT_EQ(described(file.tensors()[1]), "BF16 [2, 5]");
  std::vector<std::byte> found(6);
  file.read(file.tensors()[1], 4, found);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), bytes.begin() + 12 + 4));
  EXPECT_NE(message_of<Error>([&] { file.read(file.tensors()[1], 16, found); }), "");
}

TEST(Safetensors, ElementsBeginAtAMultipleOfEight) {
  const ScratchFolder folder;
  for (std::size_t n = 1; n <= 8; ++n) {
    const std::string name(n, 'n');
    SafetensorsWriter(folder / name, {{name, "F32", {0}}}).finish();
    EXPECT_EQ(SafetensorsFile(folder / name).tensors()[0].begin % 8, 0) << n;
  }
}

TEST(Safetensors, AFileThatIsCutShortOrTooLongIsNotWritten) {
  const ScratchFolder folder;
  SafetensorsWriter writer(folder / "f", {{"a", "F32", {2}}});
  const std::vector<std::byte> three(12);
  EXPECT_NE(message_of<Error>([&] { writer.append(three); }).find("more"), std::string::npos);
  EXPECT_NE(message_of<Error>([&] { writer.finish(); }).find("lacks 8 bytes"), std::string::npos);
}

struct Wrong {
  const char* name;
  std::string file, says;
};

TEST(Safetensors, DamagedHeadersAreNamed) {
  const auto one = [](const char* fields) {
    return whole(fmt::format("{{\"a\": {}}}", fields), 8);
  };
  const Wrong all[] = {
      {"empty", "", "too few"},
      {"short", "1234567", "too few"},
      {"huge", with_length(100'000'001, std::string(64, ' ')), "100 MB"},
      {"negative", with_length(~std::uint64_t{0}, "{}"), "100 MB"},
      {"cut", with_length(50, "{}"), "ends within its header"},
      {"no_json", whole("nonsense", 0), "is damaged"},
      {"array", whole("[]", 0), "not a JSON object"},
      {"utf8", whole("{\"\xff\": 1}", 0), "is damaged"},
      {"deep", whole("{\"a\":" + std::string(90, '[') + std::string(90, ']') + "}", 0), "nested"},
      {"twice",
       whole(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
             R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
             8),
       "'a' occurs twice"},
      {"text", one("\"x\""), "a: 'dtype' is missing"},
      {"type", one(R"({"dtype":"F7","shape":[2],"data_offsets":[0,8]})"), "'F7'"},
      {"no_shape", one(R"({"dtype":"F32","data_offsets":[0,8]})"), "'shape' is missing"},
      {"negative_extent", one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "'shape'"},
      {"overflow", one(R"({"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]})"),
       "too large"},
      {"size", one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "takes 12 bytes"},
      {"outside", one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"), "out of range"},
      {"backwards", one(R"({"dtype":"F32","shape":[0],"data_offsets":[8,0]})"), "out of range"},
      {"pair", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "not a pair"},
      {"fraction", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8.5]})"), "not an integer"},
      {"gap_before", one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
       "4 bytes before a"},
      {"gap_behind", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), "last 4 bytes"},
      {"overlap",
       whole(R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},)"
             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
             8),
       "a and b overlap"},
  };
  const ScratchFolder folder;
  for (const auto& w : all) {
    const auto file = folder.write(w.name, w.file);
    const auto says = message_of<Error>([&] { SafetensorsFile f(file); });
    EXPECT_NE(says.find(w.says), std::string::npos) << w.name << ": " << says;
    EXPECT_NE(says.find(file), std::string::npos) << says;
  }
}

}  // namespace trireme
