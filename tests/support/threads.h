// Runs a computation with 1 to 4 threads and compares the resulting bytes.
#pragma once

#include "support/memcheck.h"
#include "support/op.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace test {

using namespace seppo;

using Bytes = std::vector<char>;

template <class T>
void add(Bytes& bytes, std::span<const T> values) {
  const auto raw = std::as_bytes(values);
  const std::size_t before = bytes.size();
  bytes.resize(before + raw.size());
  if (!raw.empty()) std::memcpy(&bytes[before], raw.data(), raw.size());
}

// Runs f with 1 to 4 threads: by itself, as several tasks at once, and as nested tasks.
inline void check_threads(const std::string& name, const std::function<Bytes()>& f) {
  Bytes outside, inside;
  for (const int threads : is_in_memcheck() ? std::vector{3} : std::vector{1, 2, 3, 4}) {
    set_num_threads(threads);
    const Bytes alone = f();
    std::vector<Bytes> tasks(6);
    run_tasks(3, [&](std::size_t task) { tasks[task] = f(); });
    run_tasks(2, [&](std::size_t outer) {
      if (outer == 1) tasks[3] = f();
      if (outer == 0) run_tasks(2, [&](std::size_t inner) { tasks[4 + inner] = f(); });
    });
    if (outside.empty()) outside = alone, inside = tasks[0];
    BOOST_REQUIRE(!alone.empty());
    BOOST_CHECK_MESSAGE(alone == outside, name << ": " << threads << " threads");
    for (const Bytes& bytes : tasks)
      BOOST_CHECK_MESSAGE(bytes == inside, name << ": tasks of " << threads << " threads");
  }
  set_num_threads(1);
}

// The op's value and the gradients of those inputs that get one, for a random cotangent, on a tape of its own.
inline Bytes values_and_gradients(const std::vector<Shape>& shapes, const Op& op) {
  Tape own;
  const UseTape use(own);
  own.random = {7, 3, 0, 0};
  RandomStream random(1, Purpose::test);
  const auto draw = [&](std::size_t count) {
    std::vector<real> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<real>(random.normal()));
    return values;
  };
  std::vector<Tensor> x;
  for (const Shape& shape : shapes) x.push_back(variable(shape, draw(static_cast<std::size_t>(shape.numel()))));
  const Tensor y = op(x);
  if (y.requires_grad()) own.backward(y, draw(y.numel()));
  Bytes bytes;
  add(bytes, std::span<const real>(y.values()));
  for (const Tensor& input : x)
    if (input.node().grad) add(bytes, std::span<const real>(input.grad()));
  return bytes;
}

inline void check_op(const std::string& name, const std::vector<Shape>& shapes, const Op& op) {
  check_threads(name, [&] { return values_and_gradients(shapes, op); });
}

}  // namespace test
