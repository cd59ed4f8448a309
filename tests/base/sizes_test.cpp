#include "lib/base/sizes.hpp"

#include <gtest/gtest.h>

namespace trireme {

TEST(Sizes, AreReadByPeople) {
  EXPECT_EQ(memory_text(0), "0 B");
  EXPECT_EQ(memory_text(1023), "1023 B");
  EXPECT_EQ(memory_text(1024), "1.0 KiB");
  EXPECT_EQ(memory_text(38179974144.0), "35.6 GiB");  // / 2^30 = 35.558
  EXPECT_EQ(memory_text(1024.0 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(traffic_text(999), "999 B");
  EXPECT_EQ(traffic_text(16950123456789.0), "16.95 TB");
  EXPECT_EQ(traffic_text(999999.0), "1.00 MB");
}

}  // namespace trireme
