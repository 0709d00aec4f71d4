// Draw: hands out the arguments of an op. A row of the table of ops asks for shapes, axes, indices and numbers, one
// after another; who goes over the table decides which it gets: all typical ones in turn, random ones of which some do
// not fit, or those that an input of the fuzzer stands for.
#pragma once

#include "support/op.h"

#include <seppo/autograd/core/random.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace test {

class Draw {
 public:
  virtual ~Draw() = default;

  // The shape of the op's next input: any of these; this one; one that broadcasts with another.
  Shape input(const std::vector<Shape>& typical) { return note(first(typical)); }
  Shape input_like(const Shape& wanted) { return note(take(wanted)); }
  Shape operand(const Shape& other) { return input_like(broadcastable(other)); }

  int integer(int low, int high);
  int axis(int rank) { return rank == 0 ? 3 * choose(2) - 2 : integer(-rank, rank - 1); }  // none of a scalar's
  std::vector<int> indices(std::size_t count, int low, int high);
  double number(const std::vector<double>& typical);  // or a negative one, or NaN
  Shape broadcastable(const Shape& other);            // that broadcasts with another
  bool flag() { return choose(2) == 1; }
  virtual bool strays() { return false; }  // whether the next argument may be one that does not fit
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(choose(static_cast<int>(values.size())))];
  }

  std::vector<Shape> inputs;  // so far

 protected:
  virtual int choose(int count) = 0;  // 0 .. count - 1
  virtual int index(int low, int high);
  virtual Shape first(const std::vector<Shape>& typical);
  virtual Shape take(const Shape& wanted);

 private:
  Shape any_shape();
  Shape note(const Shape& shape) {
    inputs.push_back(shape);
    return shape;
  }
};

// Every combination of typical arguments, one after another; indices are random.
class EveryDraw : public Draw {
 public:
  bool next();  // goes on to the next combination; false if there is none

 protected:
  int choose(int count) override;
  int index(int low, int high) override;

 private:
  struct Choice {
    int made, count;
  };
  std::vector<Choice> choices_;
  std::size_t made_ = 0;
  seppo::RandomStream random_{1, seppo::Purpose::test};
};

// Random arguments, of which about one in eight does not fit.
class RandomDraw : public Draw {
 public:
  explicit RandomDraw(std::uint64_t seed) : random(seed, seppo::Purpose::test) {}
  bool strays() override { return random.below(8) == 0; }
  seppo::RandomStream random;

 protected:
  int choose(int count) override { return static_cast<int>(random.below(static_cast<std::uint32_t>(count))); }
};

// Inputs of the given shapes, with other arguments that fit.
class GivenShapes : public RandomDraw {
 public:
  GivenShapes(std::vector<Shape> shapes, std::uint64_t seed) : RandomDraw(seed), shapes_(std::move(shapes)) {}
  bool strays() override { return false; }
  bool has_chosen() const { return has_chosen_; }  // so that another seed may give something else

 protected:
  int choose(int count) override {
    has_chosen_ = true;
    return RandomDraw::choose(count);
  }
  Shape first(const std::vector<Shape>&) override { return shapes_.at(inputs.size()); }
  Shape take(const Shape&) override { return shapes_.at(inputs.size()); }

 private:
  std::vector<Shape> shapes_;
  bool has_chosen_ = false;
};

}  // namespace test
