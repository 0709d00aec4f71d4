// The same op and model in double precision, to check their gradients.
#include "model.h"

#include <seppo/nn/gradient_check.h>
#include <seppo/nn/parameters.h>

#include <iostream>

bool has_right_gradients() {
  using namespace consumer;
  Parameters parameters(/*seed=*/1);
  const Comparer model(parameters.root(), kInputs, 5);
  const Data data = draw(4);
  const auto op = gradient_check({{3, 4}}, [](std::span<const Tensor> x) { return softsign(x[0]); });
  const auto whole = gradient_check(parameters, [&] { return cross_entropy(model(data.inputs()), data.larger); });
  if (!op.passed || !whole.passed) std::cerr << op.text << whole.text;
  return op.passed && whole.passed;
}
