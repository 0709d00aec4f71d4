// Drives the training of a small program (examples/small) for comparison with its twin in PyTorch (tests/oracle/small).
// The program's own source, named by SEPPO_SMALL_PROGRAM, is included here.
//
//   small_NAME_PRECISION FILE N    saves the initial parameters to FILE (those of a second Parameters, `critic` or
//                                  `teachers`, to FILE.critic), prints the losses of N steps, one per line, and saves
//                                  the final parameters to FILE.end
//                                  A program that serves instead prints the tokens of its answers to N batches
//   small_NAME_PRECISION           for each line of standard input, a number of steps, runs that many on batches drawn
//                                  beforehand and prints the milliseconds per step
struct Training;
struct Serving;
#define main run_program
#include SEPPO_SMALL_PROGRAM
#undef main

#include <seppo/nn/io/checkpoint.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <type_traits>

namespace {

// What the program does: it defines one of these.
template <class T>
concept Defined = requires {
  sizeof(T);
};
using Work = std::conditional_t<Defined<Serving>, Serving, Training>;

// Eight requests to a server, of up to eight tokens each.
template <class Requests>
Requests draw_requests() {
  static RandomStream random(/*seed=*/1, Purpose::data);
  static std::uint64_t drawn = 0;
  Requests requests(8);
  for (auto& request : requests) {
    request = {.prompt = std::vector<int>(1 + random.below(8)), .options = {.max_tokens = 16, .seed = drawn++}};
    for (int& token : request.prompt) token = static_cast<int>(random.below(100));
  }
  return requests;
}

Batch draw(auto& work) {
  if constexpr (requires { work.draw(); })
    return work.draw();
  else
    return draw_requests<Batch>();
}

void step(auto& work, const Batch& batch, const auto& tell) {
  if constexpr (requires { work.answer(batch); })
    for (const auto& answer : work.answer(batch))
      for (const int token : answer.tokens) tell(token);
  else
    tell(work.step(batch));
}

template <class T>
void save(const std::string& start, const T& training) {
  save_checkpoint(start, training.parameters, {});
  if constexpr (requires { training.critic; }) save_checkpoint(start + ".critic", training.critic, {});
  if constexpr (requires { training.teachers; }) save_checkpoint(start + ".critic", training.teachers, {});
}

void print_numbers(const std::string& start, int steps) {
  Work work;
  save(start, work);
  for (int i = 0; i < steps; ++i) step(work, draw(work), [](double number) { std::printf("%.17g\n", number); });
  save(start + ".end", work);
}

void print_times() {
  Work work;
  std::vector<Batch> batches;
  for (int i = 0; i < 8; ++i) batches.push_back(draw(work));
  std::size_t n = 0;
  for (int steps; std::cin >> steps;) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step(work, batches[n++ % batches.size()], [](double) {});
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    std::cout << time.count() / steps << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3)
    print_numbers(argv[1], std::atoi(argv[2]));
  else
    print_times();
}
