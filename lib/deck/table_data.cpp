// Keys for the data that a run reads: training files, phases and validation sets.
#include "lib/deck/sections.hpp"

namespace trireme {

using enum ValueKind;

KeySection data_section() {
  using D = DataConfig;
  const auto row = rows_of(&Deck::data);
  const auto validation = row.access(
      [](const D& d) {
        return d.validation_fraction > 0 ? KeyValue(d.validation_fraction)
                                         : KeyValue(d.validation_files);
      },
      [](D& d, const KeyValue& v) {
        const auto* fraction = std::get_if<double>(&v);
        d.validation_fraction = fraction ? *fraction : 0;
        d.validation_files.clear();
        if (!fraction) d.validation_files = std::get<std::vector<std::string>>(v);
      });
  return {
      .name = "data",
      .meaning = "Token files for training and validation. `trireme tokenize` creates token files.",
      .keys = {
          row("path", &D::path, "Token files to train on")
              .as(paths)
              .like("[\"corpus.tokens\"]")
              .needed(),
          row("weights", &D::weights,
              "Relative share of each file in the training samples. Give one number per file. For "
              "example, [3, 1] takes three of four samples from the first file")
              .above(0, 1e9)
              .automatically("in proportion to file sizes"),
          row("loss_weights", &D::loss_weights,
              "Factor of each file's documents in the training loss. Give one number per file. The "
              "weight of a document is this factor times its weight in the token file (tokenize "
              "--weight). The loss is the weighted mean over all targets of a step. Evaluations "
              "have no weights")
              .in(1e-6, 65536)
              .automatically("1 for each file"),
          KeyRow(
              "validation", fraction_or_paths, validation,
              "Validation data: a list of token files, or a fraction. A fraction reserves this "
              "part at the end of each training file for validation. [] means no validation data")
              .below(0, 1)
              .like("0.01"),
          row("order", &D::order,
              "Order of training samples. random: a new permutation of all samples in each epoch. "
              "sequential: as in the files. With packing = \"documents\", sequential order is "
              "approximate, because short documents fill gaps in earlier samples"),
          row("packing", &D::packing,
              "How samples are made from a token file. windows: consecutive pieces of "
              "model.context tokens, which may cut documents. documents: as many whole documents "
              "as fit, then padding. A separator token ends each document"),
          row("long_documents", &D::long_documents,
              "What happens to documents that are longer than a sample if packing = \"documents\". "
              "cut: the end is removed. split: the end becomes another document. drop: the "
              "document is left out. refuse: the run fails. See docs/packing.md"),
          row("attention", &D::attention,
              "Earlier tokens that each token attends to. causal: all in the same sample. "
              "document: only those in the same document. Positions start at 0 in each document. A "
              "separator token ends each document"),
          row("separator_masks", &D::separator_masks,
              "Whether to exclude the first token of each document from the loss. The first token "
              "is the one after a separator token"),
      }};
}

KeySection phase_section() {
  using P = PhaseConfig;
  const auto entries = [](auto& deck) -> auto& {
    return deck.data.phases;
  };
  const auto row = rows_of_entries<Deck>(entries);
  auto section = repeated<Deck>(
      entries, "phase",
      "Changes the token files, or their shares, during the run. Write one [[phase]] section per "
      "change. If several phases read the same file, each continues where the one before it "
      "stopped, so that no sample is lost or repeated. Until the first phase, [data] applies.",
      {
          row("from_step", &P::from_step,
              "Number of completed steps at which the phase begins. With 90000, step 90001 of "
              "history.csv is its first step. Give either from_step or from_tokens")
              .in(1, step_most)
              .in_units("steps")
              .unset_at_zero()
              .like("90000"),
          row("from_tokens", &P::from_tokens,
              "Number of tokens before the phase, as in train.tokens. The first whole sample after "
              "them begins the phase")
              .in(1, step_most)
              .in_units("tokens")
              .unset_at_zero()
              .like("20e9"),
          row("path", &P::path, "Token files of the phase")
              .as(paths)
              .automatically("those of data.path"),
          row("weights", &P::weights,
              "Relative share of each file in the samples of the phase. Required if the phase has "
              "several files of its own")
              .above(0, 1e9)
              .automatically("data.weights if path is not given"),
      });
  section.other_names = {"data.phase", "data.phases", "data_phase",
                         "phases",     "data_stage",  "stage"};
  return section;
}

KeySection validation_section() {
  using V = ValidationSet;
  const auto entries = [](auto& deck) -> auto& {
    return deck.data.sets;
  };
  const auto row = rows_of_entries<Deck>(entries);
  return repeated<Deck>(
      entries, "validation",
      "Adds a set of validation data. Write one [[validation]] section per set. Each set is "
      "evaluated separately, at the same steps as data.validation, and has its own table "
      "evaluations/NAME.csv.",
      {
          row("name", &V::name,
              "Name of the set in logs, reports and file names. It consists of letters, digits, _ "
              "and -")
              .like("\"code\"")
              .needed(),
          row("path", &V::path, "Token files of the set")
              .as(ValueKind::paths)
              .like("[\"code.tokens\"]")
              .needed(),
          row("weight", &V::weight,
              "Weight of the set in the weighted mean of the sets' losses. The mean is reported "
              "as one more set, with the name mean. 0 leaves the set out. If no set has a weight, "
              "there is no mean")
              .in(0, 1e6),
      });
}

}  // namespace trireme
