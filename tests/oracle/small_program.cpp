// Drives the training of a small program (examples/small) for comparison with its twin in PyTorch (tests/oracle/small).
// The program's own source, named by SEPPO_SMALL_PROGRAM, is included here.
//
//   small_NAME_PRECISION FILE N    saves the initial parameters to FILE (those of a second Parameters, `critic` or
//                                  `teachers`, to FILE.critic), prints the losses of N steps, one per line, and saves
//                                  the final parameters to FILE.end
//   small_NAME_PRECISION           for each line of standard input, a number of steps, runs that many on batches drawn
//                                  beforehand and prints the milliseconds per step
#define main run_program
#include SEPPO_SMALL_PROGRAM
#undef main

#include <seppo/nn/io/checkpoint.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

template <class T>
void save(const std::string& start, const T& training) {
  save_checkpoint(start, training.parameters, {});
  if constexpr (requires { training.critic; }) save_checkpoint(start + ".critic", training.critic, {});
  if constexpr (requires { training.teachers; }) save_checkpoint(start + ".critic", training.teachers, {});
}

void print_losses(const std::string& start, int steps) {
  Training training;
  save(start, training);
  for (int i = 0; i < steps; ++i) std::printf("%.17g\n", training.step(training.draw()));
  save(start + ".end", training);
}

void print_times() {
  Training training;
  std::vector<Batch> batches;
  for (int i = 0; i < 8; ++i) batches.push_back(training.draw());
  std::size_t n = 0;
  for (int steps; std::cin >> steps;) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) training.step(batches[n++ % batches.size()]);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    std::cout << time.count() / steps << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3)
    print_losses(argv[1], std::atoi(argv[2]));
  else
    print_times();
}
