// One program with both precisions: exits with 0 if the model has learned its 64 examples and its gradients are right.
#include <iostream>

double accuracy_after_training();
bool has_right_gradients();

int main() {
  const double accuracy = accuracy_after_training();
  const bool is_right = has_right_gradients();
  std::cout << "accuracy " << accuracy << ", gradients " << (is_right ? "right" : "wrong") << "\n";
  return accuracy == 1 && is_right ? 0 : 1;
}
