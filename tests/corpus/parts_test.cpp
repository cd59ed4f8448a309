#include "lib/corpus/parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lib/corpus/segments.hpp"
#include "lib/corpus/tokenize.hpp"
#include "tests/data/token_files.hpp"
#include "tests/support/scratch.hpp"
#include "tests/tokenizer/letters.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

ListedFile listed(std::int64_t size, Division division = Division::none) {
  return {"f", {size, 1}, division};
}

TEST(Parts, HaveEachByteOnceInOrder) {
  const std::vector<ListedFile> files = {listed(3),
                                         listed(0),
                                         listed(5, Division::lines),
                                         listed(100, Division::lines),
                                         listed(-1),
                                         listed(4),
                                         listed(90),
                                         listed(2),
                                         listed(101, Division::text)};
  for (const std::int64_t size : {1, 7, 10, 33, 1000}) {
    const auto parts = parts_of(files, size);
    std::size_t file = 0;
    std::int64_t at = 0;  // of this file, already in a part
    for (const auto& part : parts) {
      std::int64_t sum = 0;
      for (const auto& s : part.segments) {
        if (at > 0 && at == files[file].stamp.size) ++file, at = 0;
        ASSERT_EQ(s.file, file) << size;
        ASSERT_EQ(s.begin, at) << size;
        if (part.is_stream) {
          EXPECT_EQ(part.segments.size(), 1U);
          EXPECT_LT(files[file].stamp.size, 0);
        }
        EXPECT_EQ(s.is_range, s.end - s.begin < files[s.file].stamp.size) << size;
        if (s.is_range) {
          EXPECT_NE(files[s.file].division, Division::none);
          EXPECT_EQ(part.segments.size(), 1U);
        }
        sum += s.end - s.begin;
        at = s.end;
        if (files[file].stamp.size <= 0) ++file, at = 0;
      }
      EXPECT_EQ(part.bytes, sum);
      // Only a file that may not be divided is larger.
      EXPECT_TRUE(sum <= size || part.segments.size() == 1) << size;
      EXPECT_TRUE(sum <= size || files[part.segments[0].file].division == Division::none);
    }
    EXPECT_EQ(file + (at > 0 ? 1 : 0), files.size()) << size;
  }
}

// Finished parts of the other files then remain useful.
TEST(Parts, StayTheSameIfAFileChanges) {
  std::vector<ListedFile> files;
  for (std::int64_t i = 0; i < 2000; ++i)
    files.push_back({fmt::format("texts/{}.txt", i), {i * 7919 % 1000, 1}});
  const auto groups = [](const std::vector<ListedFile>& all) {
    std::set<std::vector<std::string>> found;
    for (const auto& part : parts_of(all, 10'000)) {
      std::vector<std::string> names;
      for (const auto& s : part.segments)
        names.push_back(fmt::format("{} {}", all[s.file].path, all[s.file].stamp.size));
      found.insert(names);
    }
    return found;
  };
  const auto before = groups(files);
  EXPECT_GT(before.size(), 100U);  // a million bytes
  EXPECT_LT(before.size(), 300U);
  const auto lost = [&](const std::vector<ListedFile>& now) {
    const auto after = groups(now);
    return std::ranges::count_if(before, [&](const auto& g) { return !after.contains(g); });
  };
  auto removed = files, longer = files;
  removed.erase(removed.begin() + 20);
  EXPECT_LE(lost(removed), 5);
  longer[20].stamp.size += 3000;
  EXPECT_LE(lost(longer), 5);
}

TEST(Parts, RarelyHaveAnotherSize) {
  constexpr std::int64_t mega = 1 << 20, tera = std::int64_t{1} << 40;
  EXPECT_EQ(part_bytes_for(0), 8 * mega);
  EXPECT_EQ(part_bytes_for(tera / 8), 8 * mega);
  EXPECT_EQ(part_bytes_for(tera / 8 + tera / 64), 16 * mega);
  EXPECT_EQ(part_bytes_for(tera / 8 + tera / 64 + 12'345'678), 16 * mega);
  EXPECT_EQ(part_bytes_for(tera), 64 * mega);
  EXPECT_EQ(part_bytes_for(100 * tera), 256 * mega);
}

TEST(Parts, AreSharedEvenly) {
  std::vector<InputPart> parts;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < 40; ++i) {
    parts.push_back({{{}}, static_cast<std::int64_t>(i * 37 % 11 + 1)});
    if (i % 5 != 2) missing.push_back(i);
  }
  parts[3].is_stream = true;
  for (const int ranks : {1, 2, 3, 7}) {
    const auto rank_of = ranks_of(parts, missing, ranks);
    std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (missing[i] == 3) {
        EXPECT_EQ(rank_of[i], 0);
      }
      if (missing[i] != 3)
        load[static_cast<std::size_t>(rank_of[i])] += parts[missing[i]].bytes + 1;
    }
    const auto [least, most] = std::ranges::minmax(load);
    EXPECT_LE(most - least, 12) << ranks;  // the largest part
  }
  EXPECT_TRUE(ranks_of(parts, {}, 4).empty());
}

TEST(Parts, InputsBecomeTextAndBack) {
  const std::vector<ListedFile> files = {{"a b\n\xff", {5, -7}, Division::lines},
                                         {"-", {}, Division::none},
                                         {"c", {0, 1}, Division::text}};
  EXPECT_EQ(listed_files_of(text_of(files)), files);
  EXPECT_TRUE(listed_files_of("").empty());
}

TEST(Parts, BeginWhereLinesBegin) {
  const ScratchFolder scratch;
  const std::string text = "\nab\n\n\nlonger line\r\nx\nlast";
  InputFile file(scratch.write("a", text));
  for (std::size_t at = 0; at <= text.size() + 1; ++at) {
    std::size_t want = std::min(at, text.size());
    while (want > 0 && want < text.size() && text[want - 1] != '\n') ++want;
    EXPECT_EQ(line_begin(file, std::int64_t(at)), std::int64_t(want)) << at;
  }
  EXPECT_EQ(count_line_ends(file, 0, std::int64_t(text.size())), 6);
  EXPECT_EQ(count_line_ends(file, 1, 4), 1);
  const std::string endless(longest_line + 10, 'x');
  InputFile long_file(scratch.write("b", "1\n2\n" + endless + "\ny"));
  EXPECT_THAT(message_of<Error>([&] { line_begin(long_file, 5); }),
              HasSubstr("b:3: this line of JSON is longer"));
}

// Each line is in one range, whatever the ranges are, and has its number.
TEST(Parts, OfLinesHaveEachLineOnce) {
  const ScratchFolder scratch;
  const std::string text = "\n{\"a\": 1}\n\n\n{\"b\": \"longer line\"}\r\n{}\n{\"c\": 2}";
  for (const std::string& all : {text, text + "\n", "\xef\xbb\xbf" + text}) {
    const auto path = scratch.write("a.jsonl", all);
    const std::vector<ListedFile> files = {{path, stamp_of(path), Division::lines}};
    const auto bytes = bytes_tokenizer();
    TokenizeOptions o;
    o.tokenizer = bytes.get();
    for (std::int64_t size = 1; size <= std::ssize(all); ++size) {
      std::string joined;
      std::int64_t before = 0, read = 0;
      for (const auto& part : parts_of(files, size)) {
        auto s = part.segments.at(0);
        if (s.begin > 0) s.first_line = before + 2;
        if (s.is_range) before += line_ends_of(files[0], s);
        TextSource source([&](const TextItem& item) {
          for (const auto& piece : item.pieces) {
            EXPECT_EQ(piece.first_line, 1 + std::ranges::count(joined, '\n')) << size;
            joined += item.text.substr(piece.begin, piece.end - piece.begin);
          }
        });
        add_segment(o, files[0], s, source);
        source.finish();
        read += source.bytes();
      }
      EXPECT_EQ(joined, all.starts_with('\xef') ? text : all) << size;
      EXPECT_EQ(read, std::ssize(all));
    }
  }
}

}  // namespace
}  // namespace trireme
