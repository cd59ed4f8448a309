#pragma once
// The parts of a transformer in order of the forward pass: embedding, blocks, final norm, head. A
// part owns its ops alone; it borrows the weights of its units for each Run.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/autograd/tape.hpp"
#include "lib/model/spec.hpp"
#include "lib/ops/head.hpp"

namespace trireme {

// A table that two parts use has one gradient for each of them.
enum class Use : std::uint8_t { own, tied };

struct Borrow {
  UnitId unit;
  Use use = Use::own;
};

// Does this part's backward read weights? If not, none are gathered for it.
enum class BackwardReads : std::uint8_t { weights, nothing };
// When a part adds its weight gradients; the head does so in forward.
enum class GradientsIn : std::uint8_t { backward, forward };

class Part {
 public:
  virtual ~Part() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const Borrow> units() const = 0;
  virtual BackwardReads backward_reads() const { return BackwardReads::weights; }
  virtual GradientsIn gradients_in() const { return GradientsIn::backward; }
  // May its forward run again in backward, so that only its input is kept?
  virtual bool recomputable() const { return false; }
  virtual Value forward(Tape&, const Run&, Value x) const = 0;
};

class Model {
 public:
  // exact: sums of gradients depend on no layout, key/value heads' included.
  Model(Backend&, ModelSpec, DType compute, bool exact = false);
  ~Model();

  const ModelSpec& spec() const { return spec_; }
  DType compute() const { return compute_; }
  // Input of the first: ids_BT (i32). Output of the last: the loss (f64, one element).
  std::span<const std::unique_ptr<Part>> parts() const { return parts_; }
  // The last part's op, whose logits generation samples from.
  const ops::Head& head() const;

 private:
  ModelSpec spec_;
  DType compute_;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace trireme
