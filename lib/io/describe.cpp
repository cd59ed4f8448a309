#include "lib/io/describe.hpp"

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "lib/base/counted.hpp"
#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/sizes.hpp"
#include "lib/base/text_parts.hpp"
#include "lib/io/rollback_rows.hpp"
#include "lib/io/skipped_rows.hpp"

namespace trireme {

// Returns a text for each rollback of the run to a checkpoint up to this one.
static std::vector<std::string> rollbacks_before(const CheckpointReader& reader) {
  const auto run = run_of_checkpoint(reader.directory());
  std::vector<std::string> texts;
  try {
    const auto skipped = read_skipped(run);
    for (const auto& r : rollbacks_until(run, reader.meta())) {
      std::vector<std::string> steps;
      for (const auto& s : skipped)
        if (is_left_out(s, std::span(&r, 1)))
          steps.push_back(fmt::format("{} ({}, samples {} to {})", s.step, s.reason, s.first_sample,
                                      s.first_sample + s.samples - 1));
      texts.push_back(fmt::format("to step {} after step {}, without the samples {} to {}", r.step,
                                  r.last_skipped, r.first_sample, r.next_sample() - 1));
      if (!steps.empty())
        texts.back() += fmt::format("; skipped steps: {}", fmt::join(steps, ", "));
    }
  } catch (const Error& e) {
    texts.emplace_back(e.what());
  }
  return texts;
}

std::string describe(const CheckpointReader& reader) {
  const auto& m = reader.meta();
  std::int64_t elements = 0, bytes = 0;
  std::size_t widest = 0, shards = 0;
  for (const auto& p : reader.params()) {
    elements += p.shape.count();
    widest = std::max(widest, escaped(p.name).size());
  }
  for (const auto& f : reader.files()) {
    bytes += f.size;
    if (f.rank >= 0) ++shards;
  }
  std::string out = fmt::format("{}\n", reader.directory().string());
  const auto line = [&](std::string_view key, const std::string& value) {
    out += fmt::format("  {:<11} {}\n", escaped(key), escaped(value));
  };
  line("step", fmt::format("{}", m.step));
  line("consumed", counted(m.samples, "sample") + ", " + counted(m.tokens, "token"));
  line("skipped", counted(m.skipped.size(), "step"));
  for (const auto& text : rollbacks_before(reader)) line("rolled back", text);
  line("seed", fmt::format("{}", m.seed));
  line("layout",
       fmt::format("pipe {} x data {} x seq {}{}", m.grid.pipe, m.grid.data, m.grid.seq,
                   m.grid.expert > 1 ? fmt::format(" with experts over {}", m.grid.expert) : ""));
  line("tokenizer",
       fmt::format("{}, {} bytes, {} ids", m.tokenizer_kind.empty() ? "none" : m.tokenizer_kind,
                   m.tokenizer.size(), m.vocab));
  if (!m.chat_template.empty())
    line("chat", fmt::format("a template of {} bytes", m.chat_template.size()));
  line("written by", fmt::format("trireme {}, run {}", m.version, m.run));
  each_extra(m.extra, [&](const char* key, const auto& value) {
    const auto text = extra_text(value);
    if (text.empty()) return;
    const auto rows = std::ranges::count(text, '\n');
    line(key, rows > 0 ? counted(rows, "row") : text);
  });
  line("size", memory_text(static_cast<double>(bytes)) + " in " + counted(shards, "shard"));

  out += "\nfiles\n";
  for (const auto& f : reader.files()) {
    out +=
        fmt::format("  {:<18} {:>12}", escaped(f.name), memory_text(static_cast<double>(f.size)));
    if (f.rank >= 0) out += fmt::format("  rank {}, {}", f.rank, counted(f.slices.size(), "slice"));
    out += "\n";
  }
  out += fmt::format("\nparameters: {} with {} elements\n", reader.params().size(), elements);
  for (const auto& p : reader.params()) {
    out += fmt::format(
        "  {:<{}}  {} {:<16} {}", escaped(p.name), widest, name_of(p.dtype), to_string(p.shape),
        p.arrays.empty() ? "weights only" : fmt::format("with {}", fmt::join(p.arrays, ", ")));
    if (const auto n = m.updates.find(p.name); n != m.updates.end()) {
      out += ", " + counted(n->second, "update");
    }
    out += "\n";
  }
  // An imported checkpoint has a model and no deck.
  out += m.deck.empty() ? "\nmodel\n" : "\ndeck\n";
  auto lines = split(m.deck.empty() ? m.model : m.deck, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (const auto of_text : lines) out += "  " + without_controls(of_text) + "\n";
  return out;
}

}  // namespace trireme
