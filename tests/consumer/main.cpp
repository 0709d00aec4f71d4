// One program with both precisions, which saves a file in the folder that it is given. Exits with 0 if the model has
// learned its 64 examples and resumes exactly, its gradients are right, an optimiser of its own steps as seppo's does,
// and the library has left the program's signals and floating-point environment as they were.
#include <signal.h>

#include <cfenv>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

double accuracy_after_training();
bool resumes_exactly(const std::string& file);
bool has_right_gradients();
bool own_optimiser_equals_seppos();

namespace {

// What belongs to the program that uses a library.
struct Host {
  std::vector<void (*)(int)> handlers;
  int rounding = std::fegetround(), exceptions = fegetexcept();
  double denormal_half = 0;

  Host() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      if (::sigaction(number, nullptr, &action) == 0) handlers.push_back(action.sa_handler);
    }
    volatile double smallest = 4.9406564584124654e-323;  // zero if denormals were flushed
    denormal_half = smallest / 2;
  }
  bool operator==(const Host&) const = default;
};

const char* right(bool is_right) { return is_right ? "right" : "wrong"; }

}  // namespace

int main(int, char** argv) {
  const Host before;
  const double accuracy = accuracy_after_training();
  const bool resumes = resumes_exactly(argv[1] + std::string("/consumer.safetensors"));
  const bool gradients = has_right_gradients(), optimiser = own_optimiser_equals_seppos();
  const bool host = before == Host() && before.denormal_half > 0;
  std::cout << "accuracy " << accuracy << ", resumed " << right(resumes) << ", gradients " << right(gradients)
            << ", optimiser " << right(optimiser) << ", host " << right(host) << "\n";
  return accuracy == 1 && resumes && gradients && optimiser && host ? 0 : 1;
}
