#include "lib/io/run_tables.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>

#include "tests/io/sample_checkpoint.hpp"

namespace trireme {

using namespace test;

constexpr const char* history_header =
    "step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,bytes_peak\n";

TEST(History, RowsAreOnDiskAtOnceInShortestForm) {
  Folder folder;
  const auto path = folder.path() / "history.csv";
  HistoryFile history(path, {});
  history.append({1, 768, 5.545177444479562, 0.1, 6e-4, 0.01, 76800, std::nullopt, 0, 1 << 20});
  history.append({2, 1536, std::nan(""), 1e300, 1e-10, 2, 384, 0.25, 3, 4});
  EXPECT_EQ(read_text(path), std::string(history_header) +
                                 "1,768,5.545177444479562,0.1,0.0006,0.01,76800,,0,1048576\n"
                                 "2,1536,nan,1e+300,1e-10,2,384,0.25,3,4\n");
}

TEST(History, RowsPastTheRestoredStepAreDropped) {
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  {
    EvaluationFile file(path, {});
    for (std::int64_t step = 10; step <= 50; step += 10) file.append({step, step, 1, 2});
  }
  std::ofstream(path, std::ios::app) << "60,6";  // killed in the middle of a row
  {
    EvaluationFile file(path, 30);
    file.append({40, 41, 1, 2});
  }
  EXPECT_EQ(read_text(path),
            "step,tokens,loss,perplexity\n10,10,1,2\n20,20,1,2\n30,30,1,2\n40,41,1,2\n");
  { EvaluationFile file(path, 1000); }
  EXPECT_TRUE(contains(read_text(path), "40,41,1,2\n"));
  { EvaluationFile file(path, {}); }
  EXPECT_EQ(read_text(path), "step,tokens,loss,perplexity\n");
}

TEST(History, OtherColumnsAreRefusedAndLeftAlone) {
  Folder folder;
  const auto path = folder.path() / "history.csv";
  std::ofstream(path) << "step,loss\n1,2\n";
  EXPECT_TRUE(contains(message_of([&] { HistoryFile(path, 1); }), "other columns"));
  EXPECT_EQ(read_text(path), "step,loss\n1,2\n");
}

TEST(History, AFullDiskKeepsWholeRows) {
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  EvaluationFile file(path, {});
  file.append({1, 2, 3, 4});
  const auto before = read_text(path);
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small{before.size() + 3, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto message = message_of([&] { file.append({2, 3, 4, 5}); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  EXPECT_TRUE(contains(message, "File too large")) << message;
  EXPECT_EQ(read_text(path), before);
  file.append({2, 3, 4, 5});
  EXPECT_EQ(read_text(path), before + "2,3,4,5\n");
}

}  // namespace trireme
