// One program with both precisions: exits with 0 if the model has learned its 64 examples, its gradients are right,
// and an optimiser of its own steps as seppo's does.
#include <iostream>

double accuracy_after_training();
bool has_right_gradients();
bool own_optimiser_equals_seppos();

int main() {
  const double accuracy = accuracy_after_training();
  const bool is_right = has_right_gradients();
  const bool is_equal = own_optimiser_equals_seppos();
  std::cout << "accuracy " << accuracy << ", gradients " << (is_right ? "right" : "wrong") << ", optimiser "
            << (is_equal ? "right" : "wrong") << "\n";
  return accuracy == 1 && is_right && is_equal ? 0 : 1;
}
