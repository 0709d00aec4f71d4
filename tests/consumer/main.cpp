// One program with both precisions: exits with 0 if the gradients are right and the model has learnt.
#include <iostream>

double loss_after_training();
bool has_right_gradients();

int main() {
  const double loss = loss_after_training();
  const bool is_right = has_right_gradients();
  std::cout << "loss " << loss << ", gradients " << (is_right ? "right" : "wrong") << "\n";
  return loss < 0.1 && is_right ? 0 : 1;
}
