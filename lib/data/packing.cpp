#include "lib/data/packing.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/rng.hpp"
#include "lib/data/order.hpp"

namespace trireme {

namespace {

constexpr std::int64_t read_at_once = 1 << 20;  // tokens

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Calls f(position) for each separator from token `begin` on, until f returns false.
template <class F>
void each_separator(const TokenFile& file, std::int64_t begin, const F& f) {
  const std::int32_t separator = *file.header().separator;
  std::vector<std::int32_t> ids;
  for (auto first = begin; first < file.count(); first += read_at_once) {
    ids.resize(at(std::min(read_at_once, file.count() - first)));
    file.read(first, ids);
    for (auto it = ids.begin(); (it = std::find(it, ids.end(), separator)) != ids.end(); ++it)
      if (!f(first + (it - ids.begin()))) return;
  }
}

}  // namespace

std::vector<PackedDocument> documents_of(const TokenFile& file, std::int64_t begin,
                                         std::int64_t end) {
  std::vector<PackedDocument> all;
  const auto add = [&](std::int64_t from, std::int64_t to) {
    if (to > from) all.push_back({from, to - from});
  };
  std::int64_t from = begin == 0 ? 0 : -1;  // start of the current document; -1: none
  each_separator(file, std::max<std::int64_t>(0, begin - 1), [&](std::int64_t separator) {
    if (from >= 0) add(from, separator);
    from = separator + 1;
    return from < end;
  });
  // No separator needs to end the last document.
  if (from >= 0 && from < end) add(from, file.count() - 1);
  return all;
}

namespace {

// Two documents that belong together, and their number among those of the file.
struct PackedPair {
  PackedDocument first, second;
  std::size_t number = 0;
};

// Returns the pairs that begin in [begin, end). The file must contain only pairs. The function
// reads the file from its first token, because only the count from there tells which documents form
// a pair.
std::vector<PackedPair> pairs_of(const TokenFile& file, std::int64_t begin, std::int64_t end) {
  std::vector<PackedPair> all;
  PackedPair next;
  bool has_first = false;
  std::int64_t from = 0;
  const auto name = file.path().string();
  each_separator(file, 0, [&](std::int64_t separator) {
    const PackedDocument d{from, separator - from};
    require(d.count > 0,
            "{} is damaged: the document at token {} belongs to another one, but is empty. "
            "Tokenize again",
            name, from);
    from = separator + 1;
    has_first = !has_first;
    if (has_first) {
      next.first = d;
      return d.begin < end;
    }
    next.second = d;
    if (next.first.begin >= begin && next.first.begin < end) all.push_back(next);
    ++next.number;
    return true;
  });
  const bool whole = !has_first || next.first.begin >= end;
  require(whole && (has_first || from == file.count()),
          "{} is damaged: its header says that it contains {}, which have two documents each, but "
          "its last document is alone. Tokenize again",
          name, names_of(file.header().kind).many);
  const auto documents = file.header().documents,
             found = 2 * static_cast<std::int64_t>(next.number);
  require(documents == 0 || (from == file.count() ? documents == found : documents > found),
          "{} is damaged: its header says that it contains {} documents, but it has {}. Tokenize "
          "again",
          name, documents, from == file.count() ? fmt::format("{}", found) : "more");
  return all;
}

// Returns the largest number of inputs up to T whose last target is the last token of an answer.
// Returns T if no answer ends there.
std::int64_t cut_length(const TokenFile& file, const PackedDocument& d, std::int64_t T) {
  if (!file.header().has_mask) return T;
  const auto learnt = file.targets(d.begin + 1, T + 1);
  for (auto n = T; n > 0; --n)
    if (learnt[at(n - 1)] && !learnt[at(n)]) return n;
  return T;
}

// Returns the parts of a document that samples may contain.
std::vector<PackedDocument> parts_of(const TokenFile& file, PackedDocument d,
                                     const DocumentPacking::Settings& s) {
  std::vector<PackedDocument> parts;
  while (d.count > s.T && s.too_long != LongDocuments::drop) {
    const auto n = cut_length(file, d, s.T);
    parts.push_back({d.begin, n});
    if (s.too_long == LongDocuments::cut) return parts;
    d = {d.begin + n, d.count - n};
  }
  if (d.count <= s.T) parts.push_back(d);
  return parts;
}

// Returns the sample of each item, and the number of samples. `inputs` has the sizes of the items.
std::pair<std::vector<std::int64_t>, std::int64_t> best_fit(std::span<const std::int64_t> inputs,
                                                            const DocumentPacking::Settings& s) {
  std::vector<std::int64_t> order(inputs.size()), sample_of(inputs.size());
  std::iota(order.begin(), order.end(), 0);
  if (s.order == SampleOrder::random && !order.empty()) {
    const Permutation shuffled(std::ssize(order), hash64(s.seed, "packing"));
    for (auto& d : order) d = shuffled(d);
    std::ranges::stable_sort(order, std::greater(), [&](std::int64_t d) { return inputs[at(d)]; });
  }
  std::map<std::int64_t, std::vector<std::int64_t>> with_room;  // samples by their free room
  std::int64_t samples = 0;
  for (const auto d : order) {
    const auto count = inputs[at(d)];
    const auto room = with_room.lower_bound(count);
    std::int64_t left = s.T, sample = samples;
    if (room == with_room.end()) {
      ++samples;
    } else {
      left = room->first;
      sample = room->second.back();
      room->second.pop_back();
      if (room->second.empty()) with_room.erase(room);
    }
    sample_of[at(d)] = sample;
    if (left > count) with_room[left - count].push_back(sample);
  }
  return {std::move(sample_of), samples};
}

std::int64_t targets_in(const TokenFile& file, std::int64_t input, std::int64_t inputs) {
  if (!file.header().has_mask) return inputs;
  const auto counts = file.targets(input + 1, inputs);
  return std::ranges::count(counts, true);
}

}  // namespace

// Packs documents into samples. Each `in_item` consecutive documents share a sample.
void DocumentPacking::pack(std::span<const PackedDocument> documents, std::size_t in_item,
                           const Settings& s) {
  std::vector<std::int64_t> inputs;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    if (d % in_item == 0) inputs.push_back(0);
    inputs.back() += documents[d].count;
    totals_.inputs += documents[d].count;
  }
  const auto [sample_of, samples] = best_fit(inputs, s);
  totals_.samples = samples;
  first_.assign(at(samples) + 1, 0);
  for (const auto sample : sample_of) first_[at(sample) + 1] += static_cast<std::int64_t>(in_item);
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  documents_.resize(documents.size());
  const auto labels = desirable_;  // in the order of `documents`
  auto next = first_;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const auto to = at(next[at(sample_of[d / in_item])]++);
    documents_[to] = documents[d];
    if (!labels.empty()) desirable_[to / 2] = labels[d / 2];
  }
}

DocumentPacking::DocumentPacking(const TokenFile& file, std::int64_t begin, std::int64_t end,
                                 const Settings& s) {
  if (file.header().kind != Documents::single) {
    pack(whole_pairs(file, begin, end, s), 2, s);
    return;
  }
  std::vector<PackedDocument> kept;
  for (const auto& d : documents_of(file, begin, end)) {
    ++totals_.documents;
    if (d.count > s.T) {
      require(
          s.too_long != LongDocuments::refuse,
          "{}: the document that begins at token {} has {} tokens, more than the {} of a sample: "
          "raise model.context, or set data.long_documents = \"cut\", \"split\" or \"drop\"",
          file.path().string(), d.begin, d.count + 1, s.T + 1);
      ++totals_.long_documents;
    }
    const auto targets = targets_in(file, d.begin, d.count);
    const auto before = kept.size();
    const auto parted = parts_of(file, d, s);
    std::int64_t left = targets;
    for (const auto& part : parted) {
      const auto n = targets_in(file, part.begin, part.count);
      if (n > 0) kept.push_back(part);
      left -= n;
    }
    totals_.targets += targets;
    totals_.targets_lost += left;
    if (kept.size() == before) ++(parted.empty() ? totals_.dropped : totals_.left_out);
  }
  pack(kept, 1, s);
}

std::vector<PackedDocument> DocumentPacking::whole_pairs(const TokenFile& file, std::int64_t begin,
                                                         std::int64_t end, const Settings& s) {
  std::vector<PackedDocument> kept;
  const auto labels = file.labels();
  for (const auto& [first, second, number] : pairs_of(file, begin, end)) {
    ++totals_.pairs;
    totals_.documents += 2;
    const auto inputs = first.count + second.count;
    if (inputs > s.T) {
      require(s.too_long != LongDocuments::refuse,
              "{}: the {} that begins at token {} has {} input tokens in two documents{}, more "
              "than the {} of a sample: raise model.context, or set data.long_documents = \"drop\" "
              "to leave it out",
              file.path().string(), names_of(file.header().kind).one, first.begin, inputs,
              labels.empty() ? ""
                             : fmt::format(" ({} in its own and {} in its mismatched answer)",
                                           first.count, second.count),
              s.T);
      ++totals_.long_pairs;
      continue;
    }
    const auto of_first = targets_in(file, first.begin, first.count),
               of_second = targets_in(file, second.begin, second.count);
    if (of_first == 0 || of_second == 0) {
      totals_.left_out += 2;
      continue;
    }
    totals_.targets += of_first + of_second;
    kept.push_back(first);
    kept.push_back(second);
    if (labels.empty()) continue;
    require(number < labels.size(),
            "{} is damaged: it has more labeled answers than labels. Tokenize again",
            file.path().string());
    desirable_.push_back(labels[number]);
  }
  return kept;
}

BegunBefore begun_before(const TokenFile& file, std::int64_t begin, std::int64_t end,
                         std::int64_t T) {
  BegunBefore found;
  const auto windows_end = begin + (end - begin - 1) / T * T;  // end of the inputs
  std::int64_t from = begin;                                   // start of the document
  const auto count = [&](std::int64_t to) {                    // for inputs [from, to)
    to = std::min(to, windows_end);
    // The first token of a document is the target of the separator before it.
    for (auto first = std::max(begin, from - 1); first < to; first += read_at_once) {
      const auto n = std::min(read_at_once, to - first);
      const auto counts = file.targets(first + 1, n);
      for (std::int64_t i = 0; i < n; ++i) {
        if (!counts[at(i)]) continue;
        ++found.targets;
        found.cut_off += (first + i - begin) / T > (from - begin) / T;
      }
    }
  };
  each_separator(file, begin, [&](std::int64_t separator) {
    count(separator);
    from = separator + 1;
    return from < windows_end;
  });
  count(file.count());
  return found;
}

DocumentPacking::Numbers DocumentPacking::numbers(std::int64_t i) const {
  return {at(first_[at(i)]), at(first_[at(i) + 1])};
}

std::span<const PackedDocument> DocumentPacking::sample(std::int64_t i) const {
  const auto [begin, end] = numbers(i);
  return std::span(documents_).subspan(begin, end - begin);
}

}  // namespace trireme
