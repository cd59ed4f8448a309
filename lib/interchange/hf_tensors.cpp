#include "lib/interchange/hf_tensors.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "lib/base/error.hpp"

namespace trireme {

namespace {

constexpr std::string_view buffers[] = {"h.#.attn.bias", "h.#.attn.masked_bias",
                                        "layers.#.self_attn.rotary_emb.inv_freq",
                                        "rotary_emb.inv_freq"};

std::string_view cut_name(TensorRows rows) {
  switch (rows) {
    case TensorRows::all:
      return {};
    case TensorRows::queries:
      return "q";
    case TensorRows::keys:
      return "k";
    case TensorRows::values:
      return "v";
    case TensorRows::gate:
      return "gate";
    case TensorRows::up:
      return "up";
  }
  return {};
}

PackedRows rows_of(TensorRows rows, const ParamSpec& p) {
  if (rows == TensorRows::all) return {"", 0, p.shape[0]};
  const auto rows_there = std::ranges::find(p.packed, cut_name(rows), &PackedRows::name);
  require(rows_there != p.packed.end(), "{} has no rows of {}", p.name, cut_name(rows));
  return *rows_there;
}

HfTensor tensor_of(const TensorRow& row, std::string name, const ParamSpec& p,
                   const ModelConfig& c) {
  const auto [_, begin, count] = rows_of(row.rows, p);
  HfTensor t{.name = std::move(name), .shape = {count}, .param = p.name, .begin = begin};
  t.storage = row.storage;
  t.plus = row.plus;
  if (row.order == TensorOrder::rotary_pairs) {
    t.group = c.head_dim;
    t.interleaved = c.rotary_dim > 0 ? c.rotary_dim : c.head_dim;
  } else if (row.order == TensorOrder::gate_up_pairs) {
    t.group = t.interleaved = count;
  }
  if (p.shape.dims() == 1) return t;
  const auto columns = p.shape[1];
  t.begin = begin * columns;
  t.shape = row.storage == TensorStorage::columns ? Shape{columns, count} : Shape{count, columns};
  return t;
}

HfTensor of_expert(HfTensor t, std::string_view expert, std::int64_t experts) {
  std::from_chars(expert.data(), expert.data() + expert.size(), t.expert);
  t.experts = experts;
  return t;
}

bool has_all_experts(const TensorRow& row) {
  constexpr auto none = std::string_view::npos;
  return row.param.find('@') != none && row.tensor.find('@') == none;
}

// The numbers 3 and 7 of "blocks.3.experts.7.ffn_in.weight". A number that the name lacks is empty.
struct Numbers {
  std::string_view block, expert;
};

std::string_view number_behind(std::string_view word, std::string_view name) {
  const auto at = name.find(word);
  if (at == std::string_view::npos) return {};
  name.remove_prefix(at + word.size());
  return name.substr(0, name.find('.'));
}

Numbers numbers_in(std::string_view name) {
  if (!name.starts_with("blocks.")) return {};
  return {number_behind("blocks.", name), number_behind(".experts.", name)};
}

std::string with(const Numbers& numbers, std::string_view pattern) {
  std::string text;
  for (const char c : pattern)
    if (c == '#')
      text += numbers.block;
    else if (c == '@')
      text += numbers.expert;
    else
      text += c;
  return text;
}

void require_whole(const std::vector<HfTensor>& tensors, const ModelSpec& spec) {
  std::map<std::string_view, std::int64_t> covered;
  for (const auto& t : tensors) {
    require(t.begin == covered[t.param], "{} does not follow the previous tensor", t.name);
    covered[t.param] += t.shape.count();
  }
  for (const auto& p : spec.params)
    require(covered[p.name] == p.shape.count(), "the tables of tensors lack the parameter {}",
            p.name);
}

}  // namespace

std::int64_t HfTensor::row_in_tensor(std::int64_t row) const {
  if (group == 0) return row;
  const auto half = group / 2, pairs = interleaved / 2;
  const auto first = row / group * group, in_group = row % group;
  const auto second = in_group / half, pair = in_group % half;
  const auto there =
      pair < pairs ? 2 * pair + second : interleaved + second * (half - pairs) + (pair - pairs);
  return first + there;
}

std::vector<HfTensor> hf_tensors(const TensorTable& rows, const ModelSpec& spec) {
  const auto& c = spec.config;
  std::vector<HfTensor> tensors;
  for (const auto& p : spec.params) {
    const auto numbers = numbers_in(p.name);
    for (const auto& row : rows) {
      if (with(numbers, row.param) != p.name) continue;
      auto t = tensor_of(row, with(numbers, row.tensor), p, c);
      t.scales = with(numbers, row.scales);
      tensors.push_back(has_all_experts(row) ? of_expert(std::move(t), numbers.expert, c.experts)
                                             : std::move(t));
    }
  }
  require_whole(tensors, spec);
  return tensors;
}

std::vector<HfTensor> hf_tensors(const ModelSpec& spec) {
  return hf_tensors(family_of(spec.config).tensors.front(), spec);
}

bool is_known_buffer(std::string_view name) {
  for (const std::string_view prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  // Names of buffers differ only in the number of the block.
  std::string pattern;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    if (!digit)
      pattern += name[i];
    else if (!pattern.ends_with('#'))
      pattern += '#';
  }
  return std::ranges::find(buffers, pattern) != std::end(buffers);
}

}  // namespace trireme
