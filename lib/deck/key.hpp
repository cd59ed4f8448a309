#pragma once
// One declared key of a deck: its type, range, meaning and the member of Deck with its value.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deck/deck.hpp"
#include "lib/deck/value.hpp"

namespace trireme {

enum class ValueKind : std::uint8_t {
  flag,
  integer,
  real,
  duration,  // seconds, or "hh:mm:ss"
  text,
  path,
  choice,
  integers,
  reals,
  texts,
  paths,
  fraction_or_paths,
};

struct Interval {
  double min = 0, max = 0;
  bool above_min = false, below_max = false;  // min and max themselves are excluded
};

// `row` counts the entries of a repeated section ([[freeze]]) and is 0 elsewhere.
struct DeckAccess {
  std::function<DeckValue(const Deck&, std::size_t row)> get;
  std::function<void(Deck&, std::size_t row, const DeckValue&)> set;
};

struct DeckKey {
  std::string section, name;
  ValueKind kind = ValueKind::flag;
  std::string unit;
  std::string meaning;  // one line
  std::optional<Interval> range;
  std::vector<std::string> choices;
  std::string prefix;           // beside the choices: a text that begins so, and behind it a path
  std::size_t count = 0;        // elements that an array must have; 0: any number
  std::string word, of_word;    // a text that an integer key takes, too, and what it means
  std::string automatic;        // what "auto" means; empty: "auto" is not accepted
  std::string example;          // shown where there is no sensible default
  bool required = false;        // the template shows its example uncommented
  bool zero_is_unset = false;   // 0 is "not given" and cannot be written
  bool rounded_to_f32 = false;  // where precision.compute is not f64
  DeckAccess access;

  std::string path() const { return section + "." + name; }
};

struct DeckSection {
  std::string name;
  std::string meaning;
  bool repeated = false;  // [[name]]
  std::vector<DeckKey> keys;

  std::string header() const { return repeated ? "[[" + name + "]]" : "[" + name + "]"; }
};

// "whole number", "array of paths".
std::string kind_text(const DeckKey&);
// "1 to 64", "above 0", "f32, bf16 or f64"; empty when any value goes.
std::string range_text(const DeckKey&);
// The value without which a deck does: TOML text, or `auto`, or nothing for a required key.
std::string default_text(const DeckKey&);

struct BadValue : std::exception {
  BadValue(std::string text, SourceLocation at) : message(std::move(text)), place(at) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
  SourceLocation place;
};

// Type, range, choices, environment and absolute paths. Throws BadValue; its message names the key.
DeckValue accepted(const DeckKey&, const RawValue&);
// An override's text, read by the key's declared type; what is no such value stays text, which
// `accepted` refuses.
RawValue raw_from_text(const DeckKey&, std::string_view);

}  // namespace trireme
