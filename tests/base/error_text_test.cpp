#include "lib/base/error_text.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace trireme {

TEST(ErrorText, OfAPathIsNoDefectOfTheProgram) {
  const auto loop = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  const auto text = error_text(std::filesystem::filesystem_error("status", "a/loop", loop));
  EXPECT_EQ(text, "cannot access a/loop: " + loop.message());
  EXPECT_EQ(error_text(std::filesystem::filesystem_error("equivalent", "a", "b", loop)),
            "cannot access a or b: " + loop.message());
  const auto full = std::make_error_code(std::errc::no_space_on_device);
  EXPECT_EQ(error_text(std::system_error(full, "cannot write")), "cannot write: " + full.message());
  EXPECT_EQ(error_text(std::logic_error("x")), "unexpected error: x -- please report this");
}

TEST(ErrorText, IsWholeBehindANul) {
  const std::string name("a\0b", 3);
  try {
    fail("no {} here", name);
  } catch (const Error& e) {
    EXPECT_EQ(error_text(e), "no a\\x00b here");
  }
  EXPECT_EQ(error_text(std::filesystem::filesystem_error(
                "status", name, std::make_error_code(std::errc::permission_denied))),
            "cannot access a\\x00b: Permission denied");
}

}  // namespace trireme
