#pragma once
// The parts of a transformer in the order a token meets them: embedding, blocks, final norm, head.
// A part borrows units and owns nothing but its ops; weights come with each Run.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/autograd/tape.hpp"
#include "lib/model/spec.hpp"
#include "lib/ops/head.hpp"

namespace trireme {

// A table that two parts read has one gradient for each of them.
enum class Use : std::uint8_t { own, tied };

struct Borrow {
  UnitId unit;
  Use use = Use::own;
};

// Does backward of this part read weights? If not, nothing need be gathered for it.
enum class BackwardReads : std::uint8_t { weights, nothing };
// The head adds its weight gradient while it runs forward.
enum class GradientsIn : std::uint8_t { backward, forward };

class Part {
 public:
  virtual ~Part() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const Borrow> units() const = 0;
  virtual BackwardReads backward_reads() const { return BackwardReads::weights; }
  virtual GradientsIn gradients_in() const { return GradientsIn::backward; }
  // Worth running twice to keep its input alone.
  virtual bool recomputable() const { return false; }
  virtual Value forward(Tape&, const Run&, Value x) const = 0;
};

class Model {
 public:
  Model(Backend&, ModelSpec, DType compute);
  ~Model();

  const ModelSpec& spec() const { return spec_; }
  DType compute() const { return compute_; }
  // Input of the first: ids_BT (i32). Output of the last: the loss (f64, one element).
  std::span<const std::unique_ptr<Part>> parts() const { return parts_; }
  // The last part's product, for generation.
  const ops::Head& head() const;

 private:
  ModelSpec spec_;
  DType compute_;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace trireme
