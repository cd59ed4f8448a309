#pragma once
// Converts tokens back to text, as configured by the decoder in tokenizer.json. Supports ByteLevel,
// ByteFallback, Fuse, Metaspace, Replace, Strip and sequences of these types.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "lib/tokenizer/normalizer.hpp"

namespace trireme {

// A sequence of decoding steps.
class Decoder {
 public:
  // Reads "decoder" of tokenizer.json. A null value joins tokens with spaces. Throws Error, naming
  // the type, if a type is not supported.
  explicit Decoder(const nlohmann::json&);

  // Returns the text of `tokens` as well-formed UTF-8. Bytes that form no character become U+FFFD.
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
