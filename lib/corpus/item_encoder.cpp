#include "lib/corpus/item_encoder.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/escaped.hpp"
#include "lib/base/json.hpp"
#include "lib/base/vendor_text.hpp"
#include "lib/chat/chat_writer.hpp"
#include "lib/chat/unread_keys.hpp"
#include "lib/corpus/labeled_answers.hpp"
#include "lib/corpus/pair_documents.hpp"

namespace trireme {

bool has_mask(const TokenizeOptions& o) {
  return o.chat || !o.prompt.empty() || !o.weight.empty() || o.documents != Documents::single;
}

namespace {

class Encoder {
 public:
  Encoder(const TokenizeOptions& options, int token_bytes)
      : options_(options),
        token_bytes_(token_bytes),
        masked_(has_mask(options)),
        has_byte_ids_(options.tokenizer->spec().kind == TokenizerKind::bytes),
        prefix_(options.tokenizer->prefix()) {}

  EncodedItem operator()(const TextItem& item) const {
    EncodedItem out;
    if (options_.documents == Documents::labeled) {
      add_labeled(item, out);
      return out;
    }
    for (const auto& piece : item.pieces) {
      if (piece.kind == PieceKind::json_lines) {
        each_line(item.text, piece, [&](std::string_view line, std::int64_t number) {
          add_line(line, piece.file, number, out);
        });
        continue;
      }
      const auto text = std::string_view(item.text).substr(piece.begin, piece.end - piece.begin);
      const bool open = add_text(text, piece, out);
      const bool empty = text.empty() && piece.place == TextPlace::start;
      if (piece.ends_document && !empty) end_document(out, open);
    }
    return out;
  }

 private:
  void add_ids(std::span<const std::int32_t> ids, bool target, EncodedItem& out) const {
    out.packed.append(ids, token_bytes_);
    if (masked_)
      out.packed.targets.resize(static_cast<std::size_t>(out.packed.count), target ? 1 : 0);
  }

  // Adds the ids of a text. A separator in the text ends a document, too, if it follows another id.
  // Returns true if ids follow the last separator.
  bool add_text(std::string_view text, const TextPiece& piece, EncodedItem& out) const {
    require(options_.format == InputFormat::text || !is_separator('\0') || !has_byte_ids_ ||
                text.find('\0') == std::string_view::npos,
            "{} has a zero byte, which is the separator 0: remove it, or give another id with "
            "--separator (--from text tokenizes the file as it is)",
            piece.file);
    std::vector<std::int32_t> ids;
    if (piece.place == TextPlace::start && !text.empty()) add_ids(prefix_, false, out);
    encode_in_pieces(*options_.tokenizer, text, piece.place, ids);
    bool open = piece.place != TextPlace::start;
    for (const auto id : ids) {
      if (open && is_separator(id)) ++out.documents;
      open = !is_separator(id);
    }
    add_ids(ids, true, out);
    return open;
  }

  // `open` is true if the document has ids of its own.
  void end_document(EncodedItem& out, bool open = true) const {
    if (open) ++out.documents;
    if (options_.separator) add_ids({&*options_.separator, 1}, !options_.chat, out);
  }

  void add(const TrainingDocument& d, EncodedItem& out) const {
    out.packed.append(d.ids, token_bytes_);
    if (masked_)
      out.packed.targets.insert(out.packed.targets.end(), d.targets.begin(), d.targets.end());
  }

  bool is_separator(std::int32_t id) const { return id == options_.separator; }
  bool has_separator(std::span<const std::int32_t> ids) const {
    return std::ranges::any_of(ids, [&](auto id) { return is_separator(id); });
  }
  std::string separator_text() const {
    return fmt::format("{} (\"{}\")", *options_.separator,
                       escaped(options_.tokenizer->decode({&*options_.separator, 1})));
  }
  // Throws Error if `ids` contain the separator. They are a document, or its part after the prefix.
  void require_one_document(std::span<const std::int32_t> ids) const {
    if (has_separator(ids))
      fail(
          "the separator {} is inside this document and would divide it: remove it, or give "
          "another id with --separator{}",
          separator_text(), options_.documents == Documents::single ? ", or none" : "");
  }

  TrainingDocument chat_of(const Conversation& conversation, std::size_t learnt_from,
                           const std::string& place, EncodedItem& out) const {
    TrainingDocument d;
    const auto text = options_.chat->write(conversation, learnt_from);
    encode_chat(*options_.tokenizer, text, d.ids, d.targets);
    for (const auto& m : conversation.messages) out.roles.insert(m.role);
    if (text.targets.empty() && out.untrained.count++ == 0) out.untrained.first = place;
    for (const auto message : text.left_out)
      if (out.left_out.count++ == 0)
        out.left_out.first = fmt::format("message {} at {}", message, place);
    for (const auto message : text.left_out_thoughts)
      if (out.left_out_thoughts.count++ == 0)
        out.left_out_thoughts.first = fmt::format("message {} at {}", message, place);
    for (const auto& name : text.plain_names)
      if (out.plain_names.count++ == 0)
        out.plain_names.first = fmt::format("{} at {}", escaped(name), place);
    if (has_separator(d.ids))
      fail("the separator {} is inside this conversation, which must remain one document: give {}",
           separator_text(), other_separator());
    return d;
  }

  // Returns the document of a JSON line. If its text ends with the separator, that separator is not
  // written twice.
  TrainingDocument text_of(const Json& object) const {
    const auto field = [&](const std::string& name) -> const std::string& {
      require(object.is_object(),
              "this line is JSON, but not a JSON object: each line must be one");
      const auto found = object.find(name);
      require(found != object.end(),
              "there is no field \"{}\": name the field that contains the text with --field{}",
              name,
              object.contains("messages") || object.contains("instruction")
                  ? ", or add --chat for conversations"
                  : "");
      require(found->is_string(), "field \"{}\" is not a string", name);
      return found->get_ref<const std::string&>();
    };
    static const std::string none;
    const bool prompted = !options_.prompt.empty();
    auto d = answer_document(*options_.tokenizer, prompted ? field(options_.prompt) : none,
                             field(prompted ? options_.completion : options_.field));
    if (!d.ids.empty() && is_separator(d.ids.back()) && d.targets.back() == 1) {
      d.ids.pop_back();
      d.targets.pop_back();
    }
    if (!prompted) std::ranges::fill(d.targets, std::uint8_t{1});
    const auto begins = std::min(prefix_.size(), d.ids.size());
    require_one_document(std::span(d.ids).subspan(begins));
    return d;
  }

  PairDocuments pair_of(const Json& object, std::string_view line, const std::string& place,
                        EncodedItem& out) const {
    if (options_.chat) {
      const auto pair = conversation_pair_of(parse_ordered_json(line));
      return {chat_of(pair.chosen, pair.learnt_from, place, out),
              chat_of(pair.rejected, pair.learnt_from, place, out)};
    }
    auto pair = pair_of_texts(*options_.tokenizer, object);
    require_one_document(pair.chosen.ids);
    require_one_document(pair.rejected.ids);
    return pair;
  }

  // Adds a pair, except for the end of the rejected document, which the caller adds. Adds nothing
  // if both answers are the same, because such a pair teaches nothing.
  void add_pair(const PairDocuments& pair, const std::string& place, EncodedItem& out) const {
    if (same_answers(pair)) {
      if (out.same.count++ == 0)
        out.same.first = place + (differ_at_their_start(pair)
                                      ? " (without a prompt, the first token is not trained on)"
                                      : "");
      return;
    }
    add(pair.chosen, out);
    end_document(out);
    add(pair.rejected, out);
  }

  // Returns the document in which one answer follows the prompt of another one, or its own prompt.
  TrainingDocument labeled_document(const LabeledAnswer& prompt_of, const LabeledAnswer& answer_of,
                                    EncodedItem& out) const {
    if (options_.chat) {
      auto conversation = prompt_of.turns.prompt;
      auto& messages = conversation.messages;
      const auto& answer = answer_of.turns.answer;
      const auto learnt_from = messages.size();
      messages.insert(messages.end(), answer.begin(), answer.end());
      return chat_of(conversation, learnt_from, prompt_of.place, out);
    }
    auto d = answer_document(*options_.tokenizer, prompt_of.prompt, answer_of.answer);
    require(!d.ids.empty(), "the document is empty: \"prompt\" and \"completion\" have no text");
    require_one_document(d.ids);
    return d;
  }

  LabeledAnswer labeled_in(std::string_view line, const std::string& file, std::int64_t number,
                           EncodedItem* counts) const {
    LabeledAnswer a;
    with_place(file, number, line, [&](const Json& object) {
      if (counts) count_unread(object, fmt::format("{}:{}", file, number), *counts);
      a = labeled_answer_of(parse_ordered_json(line), options_.chat != nullptr);
    });
    a.place = fmt::format("{}:{}", file, number);
    return a;
  }

  bool are_alike(const LabeledAnswer& a, const LabeledAnswer& b) const {
    if (options_.chat) return a.turns.prompt == b.turns.prompt || a.turns.answer == b.turns.answer;
    return a.prompt == b.prompt || a.answer == b.answer;
  }

  // Adds each answer with its own prompt, and the answer that follows it with the same prompt.
  void add_labeled(const TextItem& item, EncodedItem& out) const {
    std::vector<LabeledAnswer> all;
    for (const auto& piece : item.pieces)
      each_line(item.text, piece, [&](std::string_view line, std::int64_t number) {
        all.push_back(labeled_in(line, piece.file, number, &out));
      });
    // The next item counts the keys of its own first line.
    all.push_back(labeled_in(item.next.text, item.next.file, item.next.number, nullptr));
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      try {
        add(labeled_document(all[i], all[i], out), out);
      } catch (const Error& e) {
        fail("{}: {}", all[i].place, e.what());
      }
      end_document(out);
      try {
        add(labeled_document(all[i], all[i + 1], out), out);
      } catch (const Error& e) {
        fail("{}: its prompt with the answer of {}, which KTO compares with: {}", all[i].place,
             all[i + 1].place, e.what());
      }
      end_document(out);
      out.packed.labels.push_back(all[i].desirable ? 1 : 0);
      if (are_alike(all[i], all[i + 1]) && out.alike.count++ == 0) out.alike.first = all[i].place;
    }
  }

  // Returns advice that names a special token which conversations never contain.
  std::string other_separator() const {
    const auto used = options_.chat->tokens();
    for (const auto& token : options_.tokenizer->special_tokens())
      if (std::ranges::find(used, token) == used.end())
        return fmt::format("another one, such as --separator '{}', or --separator none", token);
    return "--separator none, because the chat template uses all special tokens of the tokenizer";
  }

  void add_line(std::string_view line, const std::string& file, std::int64_t number,
                EncodedItem& out) const {
    const std::int64_t before = out.packed.count;
    std::optional<double> weight;
    with_place(file, number, line, [&](const Json& object) {
      count_unread(object, fmt::format("{}:{}", file, number), out);
      const auto place = fmt::format("{}:{}", file, number);
      if (options_.documents == Documents::pairs)
        add_pair(pair_of(object, line, place, out), place, out);
      else
        add(options_.chat ? chat_of(answered(line, place, out), 0, place, out) : text_of(object),
            out);
      if (!options_.weight.empty()) weight = weight_in(object);
    });
    if (out.packed.count == before) return;
    end_document(out);
    if (options_.weight.empty()) return;
    if (!weight && out.unweighted.count++ == 0)
      out.unweighted.first = fmt::format("{}:{}", file, number);
    set_weight(weight.value_or(1), before, out);
  }

  // Returns the weight of the document in a line, or nothing if the line has none.
  std::optional<double> weight_in(const Json& object) const {
    const auto found = object.find(options_.weight);
    if (found == object.end() || found->is_null()) return std::nullopt;
    require(found->is_number(), "field \"{}\" is not a number, but it is the document's weight",
            options_.weight);
    const auto weight = found->get<double>();
    require(weight == 0 || (least_weight <= weight && weight <= most_weight),
            "field \"{}\" is {}, but a document's weight is 0, or between 2^-20 and 65536",
            options_.weight, weight);
    return weight;
  }

  // Sets the weight of the document that begins with token `begin` of the item. With the weight 0,
  // no token of the document is a target.
  static void set_weight(double weight, std::int64_t begin, EncodedItem& out) {
    if (weight == 0)
      std::fill(out.packed.targets.begin() + begin, out.packed.targets.end(), std::uint8_t{0});
    out.packed.set_weight(weight == 0 ? 1 : static_cast<float>(weight));
  }

  // Returns the conversation in a line. Empty answers are not trained on, because they would teach
  // the model not to answer.
  static Conversation answered(std::string_view line, const std::string& place, EncodedItem& out) {
    auto conversation = conversation_of(parse_ordered_json(line));
    for (auto& m : conversation.messages) {
      const bool empty = m.content().find_first_not_of(" \t\r\n") == std::string::npos;
      const bool thinks = std::ranges::any_of(
          thought_keys, [&](auto key) { return m.fields.contains(key) && m.fields[key] != ""; });
      if (m.role != "assistant" || m.learnt == false || !empty || m.has_calls() || thinks) continue;
      m.learnt = false;
      if (out.empty.count++ == 0) out.empty.first = place;
    }
    return conversation;
  }

  void count_unread(const Json& object, const std::string& place, EncodedItem& out) const {
    if (!options_.chat && options_.documents == Documents::single) return;
    const auto is_read = [&](std::string_view key) {
      return key == options_.weight || (options_.chat && options_.chat->reads(key));
    };
    for (const auto& key : unread_keys(object, is_read)) {
      auto& found = out.unread[key];
      if (found.count++ == 0) found.first = place;
    }
  }

  // Calls use(object) for a line of JSON, and adds the line's place to errors.
  static void with_place(const std::string& file, std::int64_t number, std::string_view line,
                         const std::function<void(const Json&)>& use) {
    Json object;
    try {
      object = parse_json(line);
    } catch (const Error& e) {
      fail("{}:{}: this is not JSON ({}): each line must be one object", file, number, e.what());
    }
    try {
      use(object);
    } catch (const Error& e) {
      fail("{}:{}: {}", file, number, e.what());
    } catch (const Json::exception& e) {
      fail("{}:{}: this conversation cannot be read ({})", file, number, without_tag(e.what()));
    }
  }

  const TokenizeOptions& options_;
  int token_bytes_;
  bool masked_, has_byte_ids_;
  std::vector<std::int32_t> prefix_;
};

}  // namespace

std::function<EncodedItem(const TextItem&)> item_encoder(const TokenizeOptions& options,
                                                         int token_bytes) {
  return Encoder(options, token_bytes);
}

}  // namespace trireme
