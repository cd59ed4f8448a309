#include "app/manual.hpp"

#include <fmt/ranges.h>

#include <vector>

#include "app/commands.hpp"
#include "lib/base/posix_file.hpp"
#include "lib/base/version.hpp"

namespace trireme {
namespace {

// Returns text for roff, with escapes for backslashes, dashes, and leading dots and quotes.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') continue;  // a default value that no key can type
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string page_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? "trireme" : "trireme-" + app.get_name();
}
std::string spoken_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? "trireme" : "trireme " + app.get_name();
}

bool positional(const CLI::Option& o) {
  return o.get_lnames().empty() && o.get_snames().empty();
}

// Returns an option as the manual shows it, like "--ranks INT" or "deck".
std::string written(const CLI::Option& o) {
  if (positional(o)) return o.get_single_name();
  std::string text;
  for (const auto& name : o.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (const auto& name : o.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  if (o.get_items_expected_max() > 0) text += " " + o.get_type_name();
  return text;
}

std::string synopsis(const CLI::App& app) {
  std::string text = ".SH SYNOPSIS\n.B " + roff(spoken_name(app)) + "\n";
  if (app.get_parent() == nullptr) return text + ".I SUBCOMMAND\n.RI [ argument ...]\n";
  for (const auto* o : app.get_options()) {
    if (!positional(*o)) continue;
    const auto name = roff(o->get_single_name());
    const bool several = o->get_items_expected_max() > 1;
    text += o->get_required() ? ".I " + name + (several ? " ...\n" : "\n")
                              : ".RI [ " + name + (several ? " ...]\n" : " ]\n");
  }
  return text + ".RI [ option ...]\n";
}

std::string options(const CLI::App& app, std::string_view title, bool of_positionals) {
  std::string text;
  for (const auto* o : app.get_options()) {
    if (positional(*o) != of_positionals || o->get_group().empty()) continue;
    const auto plain = o->get_default_str();
    text += ".TP\n.B " + roff(written(*o)) + "\n" + roff(o->get_description()) +
            (o->get_required() ? " (required)" : "") +
            (plain.empty() ? "" : roff(" (default: " + plain + ")")) + "\n";
  }
  return text.empty() ? text : fmt::format(".SH {}\n{}", title, text);
}

std::string page(const CLI::App& app, const CLI::App& root) {
  const auto name = page_name(app);
  std::string title = name;
  for (char& c : title) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  std::string text =
      fmt::format(".TH {} 1 \"\" \"trireme {}\" \"Trireme\"\n", roff(title), version());
  text += ".SH NAME\n" + roff(name) + " \\- " + roff(app.get_description()) + "\n";
  text += synopsis(app);
  text += options(app, "ARGUMENTS", true) + options(app, "OPTIONS", false);
  const auto all = root.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); });
  if (&app == &root) {
    text += ".SH SUBCOMMANDS\n";
    for (const auto* s : all)
      text += ".TP\n.BR " + roff(page_name(*s)) + " (1)\n" + roff(s->get_description()) + "\n";
  }
  text +=
      ".SH EXIT STATUS\n0: success; 2: invalid command line; 75: `trireme train`, or `trireme "
      "tokenize` on several ranks, stopped early and can be resumed; 128 + N: terminated by signal "
      "N; other codes: an error, described on standard error.\n";
  text += ".SH SEE ALSO\n";
  std::vector<std::string> others;
  for (const auto* other : all)
    if (other != &app) others.push_back(".BR " + roff(page_name(*other)) + " (1)");
  return text + fmt::format("{}\n", fmt::join(others, ",\n"));
}

}  // namespace

void write_manual(const CLI::App& root, const std::filesystem::path& folder) {
  const auto write = [&](const CLI::App& app) {
    const auto path = folder / (page_name(app) + ".1");
    replace_atomically(path, page(app, root));
  };
  make_directory(folder);
  write(root);
  for (const auto* s :
       root.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); }))
    write(*s);
}

void add_manual(CLI::App& app, std::function<int()>& chosen) {
  auto* command = app.add_subcommand("manual", "Write the manual pages to a directory");
  command->group("");  // hidden from the list of commands: only `make install` uses it
  auto folder = std::make_shared<std::string>();
  command->add_option("folder", *folder, "Directory to write to")->required();
  command->callback([&app, &chosen, folder] {
    chosen = [&app, folder] {
      write_manual(app, *folder);
      return 0;
    };
  });
}

}  // namespace trireme
