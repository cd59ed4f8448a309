#include "lib/corpus/tokenize.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/seconds.hpp"
#include "lib/corpus/import.hpp"
#include "lib/corpus/inputs.hpp"
#include "lib/corpus/item_encoder.hpp"
#include "lib/corpus/item_reader.hpp"
#include "lib/corpus/ordered_pool.hpp"
#include "lib/corpus/text_totals.hpp"
#include "lib/corpus/token_writer.hpp"
#include "lib/corpus/tokenize_settings.hpp"

namespace trireme {

std::string stop_reason(const TokenizeOptions& o) {
  return o.stopped_by ? o.stopped_by() : std::string();
}

void stop_if_asked(const TokenizeOptions& o) {
  if (const auto reason = stop_reason(o); !reason.empty()) throw Stopped(reason);
}

namespace {

TextTotals tokenize_text(const TokenizeOptions& options, std::span<const std::string> files,
                         std::int64_t vocab, TokenWriter& writer) {
  TextTotals totals;
  OrderedPool<TextItem, EncodedItem> pool(threads_for(options), text_in_flight,
                                          item_encoder(options, token_bytes_for(vocab)),
                                          [&](EncodedItem encoded) {
                                            writer.append(encoded.packed);
                                            totals.add(options, encoded);
                                          });
  const auto add_inputs = [&](TextSource& source) {
    for (const auto& path : files) {
      InputFile file(path, Packed::unpacked);
      add_file(options, file, source);
      ++totals.sum.files;
    }
  };
  const auto bytes = read_items(options, add_inputs, [&](TextItem item) {
    stop_if_asked(options);
    const std::size_t n = item.text.size();
    pool.add(std::move(item), n);
  });
  pool.finish();
  totals.sum.bytes = bytes;
  return totals;
}

}  // namespace

TokenizeSummary tokenize(const TokenizeOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const bool ids = imports_ids(options);
  check_options(options);
  std::optional<std::int64_t> vocab = options.vocab;
  if (!vocab && options.tokenizer != nullptr) vocab = options.tokenizer->vocab();

  // Lists the inputs before the output's temporary file exists, because its folder may be an input.
  const auto files = ids ? input_token_files(options) : input_text_files(options);
  TextTotals totals;
  TokenWriter writer(options.output, options.existing,
                     vocab ? token_bytes_for(*vocab) : import_width(options.format),
                     has_mask(options) ? TargetMask::present : TargetMask::absent);
  if (ids)
    totals.sum = import_tokens(options, files, vocab, writer);
  else
    totals = tokenize_text(options, files, *vocab, writer);
  auto& sum = totals.sum;
  sum.tokens = writer.count();
  require_useful(options, totals);
  if (!vocab) vocab = std::max<std::int64_t>(writer.largest(), options.separator.value_or(0)) + 1;
  writer.finish(*vocab, options.separator, sum.documents, stored_tokenizer(options),
                options.documents);
  sum.vocab = *vocab;
  sum.seconds = seconds_since(begin);
  return sum;
}

}  // namespace trireme
