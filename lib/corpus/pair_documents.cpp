#include "lib/corpus/pair_documents.hpp"

#include "lib/base/error.hpp"
#include "lib/base/json.hpp"

namespace trireme {

TrainingDocument answer_document(const Tokenizer& tokenizer, const std::string& prompt,
                                 const std::string& answer) {
  TrainingDocument d;
  if (!prompt.empty() || !answer.empty()) d.ids = tokenizer.prefix();
  encode_in_pieces(tokenizer, prompt, TextPlace::start, d.ids);
  d.targets.assign(d.ids.size(), 0);
  encode_in_pieces(tokenizer, answer, prompt.empty() ? TextPlace::start : TextPlace::continuation,
                   d.ids);
  d.targets.resize(d.ids.size(), 1);
  return d;
}

PairDocuments pair_of_texts(const Tokenizer& tokenizer, const Json& object) {
  require(object.is_object(), "this line is JSON, but not a JSON object: each line must be one");
  const auto field = [&](const char* name) -> const std::string& {
    const auto found = object.find(name);
    require(found != object.end(),
            "there is no field \"{}\": with --preference, each line has the texts \"prompt\", "
            "\"chosen\" and \"rejected\"; for messages, add --chat",
            name);
    require(found->is_string(), "field \"{}\" is not a string: for messages, add --chat", name);
    return found->get_ref<const std::string&>();
  };
  const auto &prompt = field("prompt"), &chosen = field("chosen"), &rejected = field("rejected");
  require(!prompt.empty() || (!chosen.empty() && !rejected.empty()),
          "a document of the pair is empty: \"prompt\" and one of the answers have no text");
  return {answer_document(tokenizer, prompt, chosen), answer_document(tokenizer, prompt, rejected)};
}

static std::vector<std::int32_t> targets_of(const TrainingDocument& d) {
  std::vector<std::int32_t> all;
  for (std::size_t i = 1; i < d.ids.size(); ++i)
    if (d.targets[i]) all.push_back(d.ids[i]);
  return all;
}

bool same_answers(const PairDocuments& p) {
  return targets_of(p.chosen) == targets_of(p.rejected);
}

bool differ_at_their_start(const PairDocuments& p) {
  return !p.chosen.ids.empty() && !p.rejected.ids.empty() && p.chosen.targets[0] &&
         p.rejected.targets[0] && p.chosen.ids[0] != p.rejected.ids[0];
}

}  // namespace trireme
