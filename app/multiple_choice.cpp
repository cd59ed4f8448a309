#include "app/multiple_choice.hpp"

#include <algorithm>
#include <cmath>

#include "app/json_lines.hpp"
#include "app/output.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/comm/agree.hpp"
#include "lib/run/multiple_choice.hpp"

namespace trireme {

namespace {

constexpr const char* row_form = R"({"ctx": "...", "endings": ["...", "..."], "label": 0})";

// Returns the first of these fields that the row contains.
const Json& field(const Json& row, std::initializer_list<const char*> names,
                  const std::string& where) {
  for (const auto* name : names)
    if (row.contains(name)) return row[name];
  fail("{} has none of the fields {}. Each line must look like {}", where, fmt::join(names, ", "),
       row_form);
}

Question question_of(const FileLine& line) {
  const auto row = object_in(line, row_form);
  const auto& where = line.where;
  const auto &context = field(row, {"ctx", "context", "query", "question"}, where),
             &endings = field(row, {"endings", "choices"}, where),
             &label = field(row, {"label", "gold", "answer"}, where);
  Question q;
  require(context.is_string() && endings.is_array() && endings.size() >= 2,
          "{}: a question must be a text with a list of at least two endings, such as {}", where,
          row_form);
  q.context = context.get<std::string>();
  for (const auto& e : endings) {
    require(e.is_string(), "{}: the ending {} is not a string. Put each ending in quotation marks",
            where, e.dump());
    q.endings.push_back(e.get<std::string>());
  }
  // HellaSwag's files store the label as a string.
  const auto text = label.is_string() ? label.get<std::string>() : label.dump();
  const auto index = Json::parse(text, nullptr, false);
  require(index.is_number_integer() && index >= 0 && index < endings.size(),
          "{}: the label {} does not select one of the {} endings. The label must be the index of "
          "the right ending, counted from 0",
          where, label.dump(), endings.size());
  q.label = index.get<std::int64_t>();
  return q;
}

std::vector<Question> questions_of(const std::string& path, const std::string& text,
                                   std::int64_t most) {
  std::vector<Question> questions;
  for (const auto& line : lines_of(path, text)) {
    if (most > 0 && std::ssize(questions) == most) break;
    questions.push_back(question_of(line));
  }
  require(!questions.empty(), "{} contains no questions", path);
  return questions;
}

std::int64_t best(const std::vector<Score>& scores, double (*of)(const Score&)) {
  return std::ranges::max_element(scores, {}, of) - scores.begin();
}
double sum_of(const Score& s) {
  return s.log_likelihood;
}
double mean_of(const Score& s) {
  return s.mean();
}

// Returns a table line with the fraction of right answers, `right` of n, and its standard error.
std::string line(std::string_view by, std::int64_t right, std::int64_t n) {
  const double p = static_cast<double>(right) / static_cast<double>(n);
  return fmt::format("{:<16}  {:>8.4f}  {:>8.4f}  {:>6} of {}\n", by, p,
                     std::sqrt(p * (1 - p) / static_cast<double>(std::max<std::int64_t>(1, n - 1))),
                     right, n);
}

void report(const std::vector<Question>& questions, const std::vector<std::vector<Score>>& scores,
            const std::string& output, ExistingFile existing, const std::string& weights) {
  std::int64_t by_sum = 0, by_mean = 0;
  std::string rows;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const auto& q = questions[i];
    const auto sum = best(scores[i], sum_of), mean = best(scores[i], mean_of);
    by_sum += sum == q.label;
    by_mean += mean == q.label;
    nlohmann::ordered_json row{
        {"question", i}, {"label", q.label}, {"by_sum", sum}, {"by_mean", mean}};
    for (const auto& s : scores[i]) {
      row["log_likelihood"].push_back(s.log_likelihood);
      row["tokens"].push_back(s.tokens);
    }
    rows += row.dump() + "\n";
  }
  if (!output.empty()) write_output(output, answers_file, existing, rows);
  const auto n = std::ssize(questions);
  fmt::print("{:<16}  {:>8}  {:>8}{}\n{}{}", "ending chosen by", "accuracy", "std err", weights,
             line("log-likelihood", by_sum, n), line("mean per token", by_mean, n));
}

}  // namespace

int evaluate_choices(const Communicator& world, const ModelArguments& a, const std::string& path,
                     const std::string& output, ExistingFile existing, std::int64_t samples) {
  std::string text;
  at_root(world, Pace::slow, [&] {
    require_another_file(output, path);
    if (!output.empty()) require_output(output, answers_file, existing);
    text = read_text(path);
  });
  world.broadcast(text);
  std::vector<Question> questions;
  together(world, [&] { questions = questions_of(path, text, samples); });
  const auto model = LoadedModel::open(world, a, ModelUse::generation);
  std::vector<std::vector<EncodedEnding>> encoded;
  together(world, [&] {
    const auto tokenizer = model->tokenizer(a.checkpoint);
    for (const auto& q : questions) {
      auto& of = encoded.emplace_back();
      for (const auto& e : q.endings) of.push_back(encode_ending(*tokenizer, q.context, e));
    }
  });
  const auto scores = score(model->trainer(), encoded);
  at_root(world, Pace::slow,
          [&] { report(questions, scores, output, existing, model->weights_text()); });
  return 0;
}

}  // namespace trireme
