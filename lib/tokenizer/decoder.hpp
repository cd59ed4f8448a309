#pragma once
// Tokens back to text, as the decoder of a tokenizer.json says: ByteLevel, ByteFallback, Fuse,
// Metaspace, Replace, Strip, and sequences.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "lib/tokenizer/normalizer.hpp"

namespace trireme {

class Decoder {
 public:
  // Null: tokens are joined by spaces. Throws Error naming a type that is not supported.
  explicit Decoder(const nlohmann::json&);

  // Well-formed UTF-8: bytes that make no character become U+FFFD.
  std::string operator()(std::vector<std::string> tokens) const;

 private:
  struct ByteLevel {};
  struct ByteFallback {};
  struct Fuse {};
  struct Metaspace {
    std::string replacement;
    bool drops_first;
  };
  struct Replace {
    Pattern pattern;
    std::string by;
  };
  struct Strip {
    std::string content;  // one character
    std::size_t start, stop;
  };
  using Step = std::variant<ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip>;

  void add(const nlohmann::json&);
  static void apply(const ByteLevel&, std::vector<std::string>&);
  static void apply(const ByteFallback&, std::vector<std::string>&);
  static void apply(const Fuse&, std::vector<std::string>&);
  static void apply(const Metaspace&, std::vector<std::string>&);
  static void apply(const Replace&, std::vector<std::string>&);
  static void apply(const Strip&, std::vector<std::string>&);

  std::vector<Step> steps_;
};

}  // namespace trireme
