#include "lib/io/run_tables.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "tests/io/sample_checkpoint.hpp"

namespace trireme {

using namespace test;

namespace fs = std::filesystem;

static CsvFile evaluation_file(const fs::path& path, const std::optional<TableStart>& start) {
  return CsvFile(path, evaluation_columns.plain, start);
}

TEST(RunTables, RowsAreInTheFileAtOnceInShortestForm) {
  Folder folder;
  const auto path = folder.path() / "history.csv";
  CsvFile history(path, history_columns.plain, {});
  history.append(to_csv(HistoryRow{1, 768, 5.545177444479562, 0.1, 6e-4, 0.01, 76800, 0, 1 << 20}));
  history.append(to_csv(HistoryRow{2, 1536, std::nan(""), 1e300, 1e-10, 2, 384, 3, 4, 0, 700}));
  EXPECT_EQ(read_text(path), std::string(history_columns.plain) +
                                 "\n1,768,5.545177444479562,0.1,0.0006,0.01,76800,,0,1048576,\n"
                                 "2,1536,nan,1e+300,1e-10,2,384,,3,4,700\n");
}

TEST(RunTables, RowsPastTheRestoredStepAreDropped) {
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  {
    auto file = evaluation_file(path, {});
    for (std::int64_t step = 10; step <= 50; step += 10)
      file.append(to_csv(EvaluationRow{step, step, 1, 2}));
  }
  std::ofstream(path, std::ios::app) << "60,6";  // killed in the middle of a row
  {
    auto file = evaluation_file(path, TableStart{.step = 30});
    EXPECT_TRUE(file.remarks().empty());
    EXPECT_EQ(file.first_step(), 10);
    file.append("40,41,1,2");
  }
  EXPECT_EQ(read_text(path),
            "step,tokens,loss,perplexity\n10,10,1,2\n20,20,1,2\n30,30,1,2\n40,41,1,2\n");
  EXPECT_TRUE(has_row(path, evaluation_columns, 40));
  EXPECT_FALSE(has_row(path, evaluation_columns, 4));
  EXPECT_FALSE(has_row(path, evaluation_columns, 50));
  EXPECT_FALSE(has_row(folder.path() / "none.csv", evaluation_columns, 40));
  EXPECT_FALSE(evaluation_file(path, {}).first_step());
  EXPECT_EQ(read_text(path), "step,tokens,loss,perplexity\n");
}

TEST(RunTables, OtherColumnsAreRefusedAndLeftAlone) {
  Folder folder;
  const auto path = folder.path() / "history.csv";
  std::ofstream(path) << "step,loss\n1,2\n";
  for (const auto& message :
       {message_of([&] { CsvFile(path, history_columns.plain, TableStart{.step = 1}); }),
        message_of([&] { require_columns(path, history_columns); })})
    EXPECT_TRUE(contains(message, "does not have the columns")) << message;
  EXPECT_EQ(read_text(path), "step,loss\n1,2\n");
}

// A run that changes its objective: the columns of preferences stay, empty where a step has none.
TEST(RunTables, AHistoryGrowsColumnsOfPreferences) {
  Folder folder;
  const auto path = folder.path() / "history.csv";
  const HistoryRow plain{1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto preferred = plain;
  preferred.step = 2;
  preferred.preference = PreferenceColumns{0.5, 1, 0.25, -0.25};
  const auto narrow = to_csv(plain) + "\n", wide = to_csv(preferred) + "\n";
  EXPECT_FALSE(has_preferences("", history_columns));
  EXPECT_FALSE(has_preferences(narrow, history_columns));
  EXPECT_TRUE(has_preferences(narrow + wide, history_columns));
  const auto before = std::string(history_columns.plain) + "\n" + narrow;
  EXPECT_FALSE(has_preferences(before, history_columns));
  // Two rows of which a damage made one say nothing of columns.
  EXPECT_FALSE(has_preferences(
      std::string(history_columns.plain) + "\n1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n",
      history_columns));
  const auto after = with_preferences(before + wide, history_columns);
  EXPECT_EQ(after, std::string(history_columns.preferences) + "\n1,2,3,4,5,6,7,,8,9,,,,,\n" + wide);
  EXPECT_EQ(with_preferences(after, history_columns), after);
  EXPECT_TRUE(has_preferences(after, history_columns));
  std::ofstream(path) << after;
  require_columns(path, history_columns);
  const auto rows = read_history(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows[0].preference);
  EXPECT_EQ(rows[0].bytes_peak, 9);
  EXPECT_EQ(rows[1].preference->reward_rejected, -0.25);
  std::ofstream(path) << "step,loss\n1,2\n";
  EXPECT_TRUE(contains(message_of([&] { require_columns(path, history_columns); }),
                       "does not have the columns"));
}

// Tables of versions that did not count trained tokens.
const std::string older =
    "step,tokens,loss,grad_norm,lr,seconds,tokens_per_second,mfu,bytes_sent,"
    "bytes_peak";
const std::string older_pairs = older + ",margin,accuracy,reward_chosen,reward_rejected";

TEST(RunTables, ATableWithoutTrainedTokensIsRead) {
  const Folder folder;
  const auto path = folder.path() / "history.csv";
  std::ofstream(path) << older << "\n1,32,3,4,5,6,7,0.25,8,9\n2,64,2,4,5,6,7,,8,10\n";
  require_columns(path, history_columns);
  EXPECT_TRUE(has_row(path, history_columns, 2));
  auto rows = read_history(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].mfu, 0.25);
  EXPECT_EQ(rows[1].bytes_peak, 10);
  EXPECT_FALSE(rows[1].trained_tokens);
  std::ofstream(path) << older_pairs << "\n1,32,3,4,5,6,7,,8,9,,,,\n"
                      << "2,64,2,4,5,6,7,,8,10,0.5,1,0.25,-0.25\n";
  require_columns(path, history_columns);
  rows = read_history(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows[0].preference);
  EXPECT_EQ(rows[1].bytes_peak, 10);
  EXPECT_FALSE(rows[1].trained_tokens);
  EXPECT_EQ(rows[1].preference->margin, 0.5);
  EXPECT_EQ(rows[1].preference->reward_rejected, -0.25);
}

TEST(RunTables, RowsWithoutTrainedTokensGetAnEmptyField) {
  const std::string rows = "1,32,3,4,5,6,7,,8,9\n",
                    pairs = "2,64,2,4,5,6,7,,8,10,0.5,1,0.25,-0.25\n";
  const auto plain = [](const std::string& text) {
    return with_columns(text, history_columns, history_columns.plain);
  };
  EXPECT_EQ(plain(rows), "1,32,3,4,5,6,7,,8,9,\n");
  EXPECT_EQ(plain(older + "\n" + rows),
            std::string(history_columns.plain) + "\n1,32,3,4,5,6,7,,8,9,\n");
  EXPECT_EQ(
      with_preferences(older_pairs + "\n" + pairs, history_columns),
      std::string(history_columns.preferences) + "\n2,64,2,4,5,6,7,,8,10,,0.5,1,0.25,-0.25\n");
  EXPECT_EQ(with_preferences(rows + pairs, history_columns),
            "1,32,3,4,5,6,7,,8,9,,,,,\n2,64,2,4,5,6,7,,8,10,,0.5,1,0.25,-0.25\n");
  // A damaged row of a newer table is not a row of an older one.
  const auto damaged = std::string(history_columns.plain) + "\n" + rows;
  EXPECT_EQ(plain(damaged), damaged);
}

TEST(RunTables, AnEvaluationOfPairsHasItsColumns) {
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  const auto plain = to_csv(EvaluationRow{4, 40, 2, 8}) + "\n";
  const auto wide = to_csv(EvaluationRow{8, 80, 0.5, 0, PreferenceColumns{1, 0.75, 2, 3}}) + "\n";
  std::ofstream(path) << with_preferences(std::string(evaluation_columns.plain) + "\n" + plain,
                                          evaluation_columns)
                      << wide;
  EXPECT_EQ(read_text(path),
            "step,tokens,loss,perplexity,margin,accuracy,reward_chosen,reward_rejected\n"
            "4,40,2,8,,,,\n8,80,0.5,,1,0.75,2,3\n");
  EXPECT_TRUE(has_row(path, evaluation_columns, 8));
  const auto rows = read_evaluations(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows[0].preference);
  EXPECT_EQ(rows[0].perplexity, 8);
  EXPECT_EQ(rows[1].perplexity, 0);
  EXPECT_EQ(rows[1].preference->accuracy, 0.75);
  EXPECT_EQ(rows[1].preference->reward_rejected, 3);
}

TEST(RunTables, WhatIsLostOfADamagedFileIsKeptBesideIt) {
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  const std::string text = "step,tokens,loss,perplexity\n1,1,1,2\n2,2,two,2\n3,3,1,2\n";
  std::ofstream(path) << text;
  const auto file = evaluation_file(path, TableStart{.step = 3});
  EXPECT_EQ(read_text(path), "step,tokens,loss,perplexity\n1,1,1,2\n3,3,1,2\n");
  EXPECT_EQ(read_text(folder.path() / "evaluation.csv.damaged"), text);
  EXPECT_EQ(file.newest_rows(), "1,1,1,2\n3,3,1,2\n");
}

// What a power cut leaves: zeros in the place of the file's blocks, of all or of the first, or less
// than a line.
TEST(RunTables, AFileWithADamagedFirstLineIsSetAsideAndMadeAgain) {
  const std::string header = "step,tokens,loss,perplexity\n", rows = "4,4,1,2\n8,8,1,2\n",
                    zeros(500, '\0');
  const auto start = TableStart{.step = 8, .carried = rows};
  for (const auto& text : {zeros, zeros + "\n" + rows, std::string("step,to"),
                           zeros + "\n8,8,1,2\n", std::string("step,tokens,loss,perplexity,mar")}) {
    SCOPED_TRACE(text.size());
    Folder folder;
    const auto path = folder.path() / "evaluation.csv";
    std::ofstream(path) << text;
    std::ofstream(folder.path() / "evaluation.csv.damaged") << "older";
    require_columns(path, evaluation_columns);
    EXPECT_NO_THROW(read_evaluations(path));
    const auto file = evaluation_file(path, start);
    EXPECT_EQ(read_text(path), header + rows);
    EXPECT_EQ(read_text(folder.path() / "evaluation.csv.damaged"), "older");
    EXPECT_EQ(read_text(folder.path() / "evaluation.csv.damaged-2"), text);
    EXPECT_EQ(file.remarks().front(), "its first line is damaged");
    EXPECT_EQ(file.remarks().back(), "the original is kept as evaluation.csv.damaged-2");
  }
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  std::ofstream(path) << zeros;
  const auto file = evaluation_file(path, TableStart{.step = 8});
  EXPECT_EQ(read_text(path), header);
  ASSERT_EQ(file.remarks().size(), 3U);
  EXPECT_EQ(file.remarks()[1], "its rows up to step 8 are lost");
  // Other columns are no damage.
  std::ofstream(path) << "step,loss\n" << zeros;
  EXPECT_THROW(require_columns(path, evaluation_columns), Error);
}

TEST(RunTables, ACheckpointCarriesTheNewestThousandRows) {
  Folder folder;
  auto file = evaluation_file(folder.path() / "evaluation.csv", {});
  for (int step = 1; step <= 1500; ++step) file.append(fmt::format("{0},{0},1,2", step));
  const auto rows = file.newest_rows();
  EXPECT_EQ(std::ranges::count(rows, '\n'), 1000);
  EXPECT_TRUE(rows.starts_with("501,501,1,2\n") && rows.ends_with("\n1500,1500,1,2\n"));
}

TEST(RunTables, ThatAreRemovedOrReplacedWhileARunWritesThemAreWrittenAnew) {
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  auto file = evaluation_file(path, {});
  std::string expected = "step,tokens,loss,perplexity\n";
  const auto add = [&](const std::string& row) {
    file.append(row);
    expected += row + "\n";
  };
  for (int step = 1; step <= 1100; ++step) add(fmt::format("{},2,3,4", step));
  EXPECT_TRUE(file.in_place());

  fs::remove(path);
  EXPECT_FALSE(file.in_place());
  file.put_back();
  EXPECT_TRUE(file.in_place());
  add("1101,2,3,4");
  EXPECT_EQ(read_text(path), expected);

  replace_atomically(path, "mine\n");
  EXPECT_FALSE(file.in_place());
  file.put_back();
  add("1102,2,3,4");
  EXPECT_EQ(read_text(path), expected);
  EXPECT_EQ(read_text(folder.path() / "evaluation.csv.damaged"), "mine\n");

  fs::resize_file(path, 100);
  EXPECT_FALSE(file.in_place());
  const auto message = message_of([&] { file.put_back(); });
  EXPECT_TRUE(contains(message, "evaluation.csv ends before byte")) << message;
}

TEST(RunTables, AFullDiskKeepsWholeRows) {
  Folder folder;
  const auto path = folder.path() / "evaluation.csv";
  auto file = evaluation_file(path, {});
  file.append("1,2,3,4");
  const auto before = read_text(path);
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small{before.size() + 3, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto message = message_of([&] { file.append("2,3,4,5"); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  EXPECT_TRUE(contains(message, "File too large")) << message;
  EXPECT_EQ(read_text(path), before);
  file.append("2,3,4,5");
  EXPECT_EQ(read_text(path), before + "2,3,4,5\n");
}

TEST(EvaluationTables, AreThoseOfNamedSets) {
  Folder folder;
  EXPECT_TRUE(evaluated_sets(folder.path()).empty());
  EXPECT_EQ(evaluation_table("run", ""), fs::path("run/evaluation.csv"));
  EXPECT_EQ(evaluation_table("run", "code"), fs::path("run/evaluations/code.csv"));
  for (const char* name : {"code.csv", "a-b_2.csv"}) EXPECT_TRUE(is_table_of_set(name)) << name;
  for (const char* name :
       {".csv", "a.b.csv", "a b.csv", "code.csv.new", "code.csv.damaged", "code"})
    EXPECT_FALSE(is_table_of_set(name)) << name;
  EXPECT_TRUE(is_set_name(std::string(100, 'a')));
  EXPECT_FALSE(is_set_name(std::string(101, 'a')));
  fs::create_directory(folder.path() / "evaluations");
  for (const char* name : {"code.csv", "b.csv.damaged", "a.csv"})
    std::ofstream(folder.path() / "evaluations" / name) << "";
  std::ofstream(folder.path() / "evaluation.notes.csv") << "";
  EXPECT_EQ(evaluated_sets(folder.path()), (std::vector<std::string>{"a", "code"}));
  std::ofstream(folder.path() / "evaluation.csv") << "";
  EXPECT_EQ(evaluated_sets(folder.path()), (std::vector<std::string>{"", "a", "code"}));
}

}  // namespace trireme
