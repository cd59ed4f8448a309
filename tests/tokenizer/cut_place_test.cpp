#include "lib/tokenizer/cut_place.hpp"

#include <gtest/gtest.h>

#include <string>

namespace trireme {

TEST(CutPlace, IsWherePiecesEnd) {
  const auto cut = [](const std::string& text) { return cut_place(text, piece_bytes); };
  std::string text(piece_bytes + 100, 'x');
  EXPECT_EQ(cut(text), piece_bytes);
  text[100] = ' ';
  EXPECT_EQ(cut(text), 100U);
  text[50] = '\n';
  EXPECT_EQ(cut(text), 51U);
  text[51] = '\n';
  EXPECT_EQ(cut(text), 52U);
  text[piece_bytes - 1] = '\n';
  EXPECT_EQ(cut(text), piece_bytes);
  text[piece_bytes] = '\n';
  EXPECT_EQ(cut(text), 52U);
  std::string wide;
  while (wide.size() <= piece_bytes) wide += "\xe2\x82\xac";  // three bytes each
  EXPECT_EQ(cut(wide) % 3, 0U);
  EXPECT_GT(cut(wide), piece_bytes - 3);
}

}  // namespace trireme
