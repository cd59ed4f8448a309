#include "lib/io/recovery_rows.hpp"

#include <gtest/gtest.h>

#include "tests/support/scratch.hpp"

namespace trireme {

TEST(RecoveryRows, SayWhatDiedAndWhatItCost) {
  const ScratchFolder run;
  EXPECT_TRUE(read_recoveries(run.path()).empty());
  run.write("recoveries.csv",
            "time,job,restart,recovery,died,nodes_before,nodes_after,ranks,last_step,step,seconds\n"
            "2026-11-30T09:00:00Z,12,0,1,no answer from n3,n1 n2 n3,n1 n2 n4,24,42,41,21\n"
            "2026-11-30T09:10:00Z,12,0,2,n1 Killed,n1 n2 n4,n1 n2 n4,24,50,48,14\n"
            "2026-11-30T09:20:00Z,12,0,3,n1 Killed,n1 n2 n4,n1 n2 n4,24,,,\n"
            "2026-11-30T09:30:00Z,12,0,4,n1 Kil");  // being written
  const auto rows = read_recoveries(run.path());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(text_of(rows[0]),
            "no answer from n3; continued after step 41 on n1 n2 n4 (24 ranks) 21 s after the "
            "failed start had ended; 1 step "
            "was repeated");
  EXPECT_EQ(text_of(rows[1]),
            "n1 Killed; continued after step 48 on n1 n2 n4 (24 ranks) 14 s after the failed start "
            "had ended; 2 steps were "
            "repeated");
  EXPECT_EQ(text_of(rows[2]), "n1 Killed; the next start failed before it trained");
  EXPECT_FALSE(rows[2].last_step);
  EXPECT_EQ(totals_of(rows), (RecoveryTotals{3, 35, 3}));
  EXPECT_EQ(totals_of({}), RecoveryTotals{});
}

}  // namespace trireme
