// trireme: the command line. main() turns every Error into a message and a non-zero exit code.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <string_view>

#include "app/commands.hpp"
#include "app/hints.hpp"
#include "app/output.hpp"
#include "kernels/host/wait_policy.hpp"
#include "lib/base/draft.hpp"
#include "lib/base/error_text.hpp"
#include "lib/base/log.hpp"
#include "lib/launch/mpi_job.hpp"
#include "lib/launch/ucx.hpp"
#include "lib/run/signals.hpp"

// Throws if the value of an option is empty, which happens if a shell variable is not set. Without
// this check, the option would count as left out.
static void require_values(const CLI::App& app) {
  constexpr std::array<std::string_view, 3> texts{"--prompt", "--stop", "--separator"};
  for (const auto* command : app.get_subcommands())
    for (const auto* option : command->get_options())
      if (std::ranges::find(texts, option->get_name()) == texts.end() &&
          std::ranges::find(option->results(), "") != option->results().end())
        throw CLI::ValidationError(option->get_name(),
                                   "the value is empty. Check that the variables in it are set");
}

constexpr int exit_usage = 2;  // exit code of shells and their tools for a wrong command line

int main(int argc, char** argv) {
  using namespace trireme;
  std::signal(SIGXFSZ, SIG_IGN);  // a write past `ulimit -f` then is an error, not a signal
  const std::string_view command = argc > 1 ? argv[1] : "";
  const bool ends_by_itself =
      command == "train" || (command == "tokenize" && launch::launched_ranks() > 1);
  if (ends_by_itself) hold_signals();
  launch::reexec_with_ucx_settings(argv);
  host::reexec_with_wait_policy(argv);
  ::prctl(PR_SET_NAME, "trireme");  // re-execution through /proc/self/exe changes the name
  if (!command.empty() && !ends_by_itself) remove_drafts_on_signals();

  CLI::App app(
      "Train transformer models on one machine or a cluster, as described by a "
      "TOML file (the deck)",
      "trireme");
  app.require_subcommand(0, 1);
  std::function<int()> chosen;
  add_train(app, chosen);
  add_check(app, chosen);
  add_plan(app, chosen);
  add_calibrate(app, chosen);
  add_deck(app, chosen);
  add_tokenize(app, chosen);
  add_evaluate(app, chosen);
  add_score(app, chosen);
  add_generate(app, chosen);
  add_inspect(app, chosen);
  add_compare(app, chosen);
  add_samples(app, chosen);
  add_rescue(app, chosen);
  add_average(app, chosen);
  add_export(app, chosen);
  add_import(app, chosen);
  add_report(app, chosen);
  add_version(app, chosen);
  add_manual(app, chosen);
  try {
    const auto dash = unicode_dash_in(app, argc, argv);
    if (!dash.empty()) throw CLI::ParseError(dash, CLI::ExitCodes::ExtrasError);
    app.parse(argc, argv);
    require_values(app);
    if (chosen) {
      const int code = chosen();
      if (code == 0) flush_output();  // a failure keeps its exit code
      return code;
    }
    fmt::print(stderr, "{}\na subcommand is required\n", app.help());
    return exit_usage;
  } catch (const CLI::ParseError& e) {
    const bool train = command == "train";
    // A misspelt option may be the required one that is missing.
    const auto unknown = unknown_options(app);
    const bool misspelt = !unknown.empty() && dynamic_cast<const CLI::RequiredError*>(&e);
    // The user may have written keys of a deck as options. Other commands have no keys.
    const bool extras = misspelt || dynamic_cast<const CLI::ExtrasError*>(&e);
    const bool keys =
        extras && (train || command == "check" || command == "plan" || command == "score");
    const auto say = [&] {
      const int code =
          misspelt ? app.exit(CLI::ExtrasError(std::string(command), unknown)) : app.exit(e);
      if (extras) fmt::print(stderr, "{}", hints_of_options(app, unknown));
      if (app.get_subcommands().empty()) fmt::print(stderr, "{}", hint_of_command(app, command));
      if (keys) fmt::print(stderr, "{}", hints_for(argc, argv));
      return code == 0 ? 0 : exit_usage;
    };
    const int code = train ? end_train(say) : say();
    return std::fflush(stdout) == 0 ? code : 1;
  } catch (const std::exception& e) {
    log_error("{}", error_text(e));
    return 1;
  }
}
