#include "lib/base/log.hpp"

#include <gmock/gmock.h>

#include "tests/support/scratch.hpp"

namespace trireme {

TEST(Log, TheFirstFileHasWhatWasSaidBeforeItToo) {
  const ScratchFolder folder;
  log_warning("too early for a file");
  log_to(folder.path() / "first");
  log_info("in the first");
  log_to(folder.path() / "second");
  log_info("in the second");
  log_to({});

  EXPECT_THAT(contents_of(folder.path() / "first"),
              testing::ContainsRegex("warning too early for a file\n.* info in the first\n$"));
  EXPECT_THAT(contents_of(folder.path() / "second"),
              testing::AllOf(testing::HasSubstr("in the second"),
                             testing::Not(testing::HasSubstr("early"))));
}

TEST(Log, WhatANameHoldsNeitherDrivesATerminalNorLooksLikeALine) {
  const ScratchFolder folder;
  log_to(folder.path() / "log");
  log_info("cannot read {}", "a\x1b[2J\n2026-01-01 00:00:00 error b\r");
  log_to({});
  EXPECT_THAT(contents_of(folder.path() / "log"),
              testing::EndsWith("cannot read a\\x1b[2J\n  2026-01-01 00:00:00 error b\\x0d\n"));
}

}  // namespace trireme
