#include "predictor.h"

namespace seppo::inline SEPPO_ABI {

Tensor one_hot(std::span<const int> symbols, int classes) {
  Tensor x = zeros({static_cast<int>(symbols.size()), classes});
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    check<IndexError>(symbols[i] >= 0 && symbols[i] < classes, "one_hot: symbol ", symbols[i], " at position ", i,
                      " is not in 0..", classes - 1);
    x.data()[i * x.cols() + static_cast<std::size_t>(symbols[i])] = 1;
  }
  return x;
}

}  // namespace seppo::inline SEPPO_ABI
